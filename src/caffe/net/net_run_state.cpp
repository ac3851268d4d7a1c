#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/net/net.hpp"

// What a solverstate keeps of a net besides its parameters.
namespace caffe {

void Net::WriteRunState(NetRunState* state) const {
  for (const auto& layer : public_layers_) {
    LayerRunState* one = state->add_layer();
    one->set_name(layer->name());
    one->set_seed(layer->context().seed);
    for (uint64_t value : layer->RunState()) one->add_value(value);
  }
}

void Net::ReadRunState(const NetRunState& state) {
  for (const LayerRunState& one : state.layer()) {
    if (!has_layer(one.name())) {
      log::Info(Concat("Ignoring the position of layer ", one.name(), ": ", name_, " has none"));
      continue;
    }
    LayerByName(one.name())->SetRunState(one.seed(), {one.value().begin(), one.value().end()});
  }
}

}  // namespace caffe

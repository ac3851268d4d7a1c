#include "run_state.hpp"

#include <map>
#include <string>
#include <vector>

#include "caffe.pb.h"
#include "caffe/core/log.hpp"

namespace caffe {

void WriteRunState(const Wiring& net, NetRunState* state) {
  for (const Node& node : net.nodes) {
    if (node.added()) continue;
    LayerRunState* one = state->add_layer();
    one->set_name(node.layer->name());
    one->set_seed(node.layer->context().seed);
    for (uint64_t value : node.layer->RunState()) one->add_value(value);
  }
}

void ReadRunState(const Wiring& net, const NetRunState& state) {
  std::map<std::string, std::vector<LayerBase*>> layers;
  for (const Node& node : net.nodes) {
    if (!node.added()) layers[node.layer->name()].push_back(node.layer.get());
  }
  std::map<std::string, size_t> given;
  for (const LayerRunState& one : state.layer()) {
    const std::vector<LayerBase*>& namesakes = layers[one.name()];
    const size_t place = given[one.name()]++;
    if (place >= namesakes.size()) {
      log::Info(Concat("Ignoring the position of layer ", one.name(), ": ", net.name, " has none"));
      continue;
    }
    namesakes[place]->SetRunState(one.seed(), {one.value().begin(), one.value().end()});
  }
}

}  // namespace caffe

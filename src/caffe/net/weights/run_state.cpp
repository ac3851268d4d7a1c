#include "run_state.hpp"

#include <string>
#include <vector>

#include "caffe.pb.h"
#include "caffe/core/log.hpp"
#include "caffe/core/repeated_names.hpp"

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
  std::vector<LayerBase*> layers;
  std::vector<std::string> names, given;
  for (const Node& node : net.nodes) {
    if (node.added()) continue;
    layers.push_back(node.layer.get());
    names.push_back(node.layer->name());
  }
  for (const LayerRunState& one : state.layer()) given.push_back(one.name());
  const std::vector<int> matches = MatchInOrder(given, names);
  for (size_t i = 0; i < given.size(); ++i) {
    const LayerRunState& one = state.layer(static_cast<int>(i));
    if (matches[i] < 0) {
      log::Info(Concat("Ignoring the position of layer ", given[i], ": ", net.name, " has none"));
    } else {
      layers[matches[i]]->SetRunState(one.seed(), {one.value().begin(), one.value().end()});
    }
  }
}

}  // namespace caffe

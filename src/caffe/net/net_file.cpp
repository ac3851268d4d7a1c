#include "caffe/net/net_file.hpp"

#include <set>
#include <vector>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/graph/passes.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

NetParameter ReadNetFile(const std::string& path, LayerLines* lines) {
  // The error about a type of another module comes later, and says which module that is.
  const auto has_type = [](const std::string& type) {
    const LayerRegistry& registry = LayerRegistry::Get();
    return registry.Has(type) || !registry.Elsewhere(type).empty();
  };
  return NamingMemory(path, [&] {
    if (!lines) return ReadNetParameter(path, has_type);
    LayerLines read{path, {}, {}};
    NetParameter net = ReadNetParameter(path, has_type, &read.lines, &read.names);
    *lines = std::move(read);
    return net;
  });
}

NetParameter ReadTestNetFile(const std::string& path) {
  LayerLines lines;
  NetParameter net = ReadNetFile(path, &lines);
  if (lines.names.empty()) return net;
  NetParameter given = net;
  given.mutable_state()->set_phase(TEST);
  std::vector<int> kept;
  const NetParameter test = FilterNet(given, &kept);
  CheckLayerTypes(test, lines.Of(kept));
  std::set<int> dropped;
  for (const OptionalName& name : lines.names) dropped.insert(name.layer);
  net.clear_layer();
  for (int i = 0; i < given.layer_size(); ++i) {
    if (!dropped.count(i)) *net.add_layer() = given.layer(i);
  }
  return net;
}

void RefusePythonLayers(const NetParameter& net) {
  const NetParameter filtered = FilterNet(net);
  for (const LayerParameter& layer : filtered.layer()) {
    // Layers of the types that another module adds are classes in Python.
    CAFFE_CHECK(LayerRegistry::Get().Elsewhere(layer.type()).empty(), layer.name(), " (",
                layer.type(), "): runs class '", layer.python_param().layer(), "' of module '",
                layer.python_param().module(),
                "', but layers in Python are switched off here (python_layers is false)");
    const auto refuse = [&](NetParameter nested) {
      *nested.mutable_state() = net.state();
      RefusePythonLayers(nested);
    };
    const MOEParameter& mixture = layer.moe_param();
    if (mixture.has_gating_net()) refuse(mixture.gating_net());
    for (const NetParameter& expert : mixture.expert_net()) refuse(expert);
  }
}

void RefusePythonLayersInTest(NetParameter net) {
  net.mutable_state()->set_phase(TEST);
  RefusePythonLayers(net);
}

}  // namespace caffe

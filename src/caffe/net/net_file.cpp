#include "caffe/net/net_file.hpp"

#include <set>
#include <vector>

#include "caffe.pb.h"
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
  if (!lines) return ReadNetParameter(path, has_type);
  LayerLines read{path, {}, {}};
  NetParameter net = ReadNetParameter(path, has_type, &read.lines, &read.names);
  *lines = std::move(read);
  return net;
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

}  // namespace caffe

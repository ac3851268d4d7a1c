#include "caffe/net/net_file.hpp"

#include "caffe.pb.h"
#include "caffe/io/proto_io.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

NetParameter ReadNetFile(const std::string& path, LayerLines* lines) {
  // The error about a type of another module comes later, and says which module that is.
  const auto has_type = [](const std::string& type) {
    const LayerRegistry& registry = LayerRegistry::Get();
    return registry.Has(type) || !registry.Elsewhere(type).empty();
  };
  LayerLines read{path, {}};
  NetParameter net = ReadNetParameter(path, has_type, &read.lines);
  if (lines) *lines = std::move(read);
  return net;
}

}  // namespace caffe

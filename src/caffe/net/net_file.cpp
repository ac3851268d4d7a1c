#include "caffe/net/net_file.hpp"

#include "caffe.pb.h"
#include "caffe/io/proto_io.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

NetParameter ReadNetFile(const std::string& path, LayerLines* lines) {
  // Layers of type Python are registered by the Python package alone, which their error says.
  const auto has_type = [](const std::string& type) {
    return type == "Python" || LayerRegistry::Get().Has(type);
  };
  LayerLines read{path, {}};
  NetParameter net = ReadNetParameter(path, has_type, &read.lines);
  if (lines) *lines = std::move(read);
  return net;
}

}  // namespace caffe

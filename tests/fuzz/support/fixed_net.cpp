#include "fuzz/support/fixed_net.hpp"

#include <google/protobuf/text_format.h>

#include "caffe/device/runtime.hpp"
#include "caffe/memory/blob.hpp"
#include "fuzz/support/target.hpp"

namespace caffe::fuzz {

NetParameter NetFromText(const std::string& text) {
  NetParameter net;
  if (!google::protobuf::TextFormat::ParseFromString(text, &net)) Fault("not a net: " + text);
  return net;
}

std::unique_ptr<Net> MakeNet(const std::string& text, Phase phase) {
  NetOptions options;
  options.device = Runtime::Get().cpu();
  options.phase = phase;
  options.seed = 1701;
  return std::make_unique<Net>(NetFromText(text), options);
}

std::string WeightBytes(const Net& net) {
  std::string bytes;
  for (const BlobBase* blob : net.learnable_params()) {
    bytes.append(static_cast<const char*>(blob->host_data()), static_cast<size_t>(blob->bytes()));
  }
  return bytes;
}

}  // namespace caffe::fuzz

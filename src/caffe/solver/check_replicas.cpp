#include "check_replicas.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/io/unknown_names.hpp"

namespace caffe {
namespace {

// "layer 'conv1', blob conv1_blobs_0, float 20 1 5 5 (500)".
std::string Describe(const Net& net, const BlobBase& parameter) {
  std::string layer;
  for (size_t i = 0; i < net.layers().size() && layer.empty(); ++i) {
    const auto& blobs = net.layers()[i]->blobs();
    const bool own = std::any_of(blobs.begin(), blobs.end(),
                                 [&](const auto& blob) { return blob.get() == &parameter; });
    if (own) layer = Concat("layer '", net.layer_names()[i], "', ");
  }
  return Concat(layer, "blob ", parameter.name(), ", ", parameter.type().name(), " ",
                parameter.shape_string());
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

void CheckReplicas(const Net& net, Communicator* communicator) {
  std::string text;
  for (const BlobBase* blob : net.learnable_params()) text += Describe(net, *blob) + "\n";
  const std::vector<std::string> first = Lines(communicator->Broadcast(text)), own = Lines(text);
  const auto line = [](const std::vector<std::string>& lines, size_t i) {
    return i < lines.size() ? lines[i] : "none";
  };
  for (size_t i = 0; i < std::max(first.size(), own.size()); ++i) {
    CAFFE_CHECK(line(first, i) == line(own, i), NetLabel(net.name()), ": replica ",
                communicator->rank(), " has other parameters than replica 0: parameter ", i, " is ",
                line(own, i), "; that of replica 0 is ", line(first, i));
  }
}

}  // namespace caffe

#pragma once

#include <string>
#include <vector>

namespace caffe {

class NetParameter;

// The lines of a net's layers in its file.
struct LayerLines {
  std::string file;
  std::vector<int> lines;  // of each layer; 0 or missing if it is unknown
  // The lines of the layers at these indices.
  LayerLines Of(const std::vector<int>& places) const;
};

// Throws one error that lists all layers whose type is not registered, with the Caffe that has the
// type, or a similar known type.
void CheckLayerTypes(const NetParameter& net, const LayerLines& lines = {});

}  // namespace caffe

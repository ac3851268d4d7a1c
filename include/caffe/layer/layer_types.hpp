#pragma once

#include <string>
#include <vector>

#include "caffe/io/unknown_names.hpp"

namespace caffe {

class NetParameter;

// Facts about the file of a net that its message does not have.
struct LayerLines {
  std::string file;
  std::vector<int> lines;  // of each layer; 0 or missing if it is unknown
  // Errors of the layers that stay when the net is filtered.
  std::vector<OptionalName> names;
  // The same for the layers at these indices.
  LayerLines Of(const std::vector<int>& places) const;
};

// Throws one error that lists all layers whose type is not registered, with the Caffe that has the
// type, or a similar known type, and lines.names.
void CheckLayerTypes(const NetParameter& net, const LayerLines& lines = {});

}  // namespace caffe

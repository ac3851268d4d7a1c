#pragma once

#include <string>
#include <vector>

namespace caffe {

class NetParameter;

// Where the layers of a net stand in the file that it was read from.
struct LayerLines {
  std::string file;
  std::vector<int> lines;  // of each layer, 0 or missing where it is not known
  // Those of the layers at these places.
  LayerLines Of(const std::vector<int>& places) const;
};

// Throws one error that lists all layers whose type is not registered, with what the type is in
// another Caffe, or a known one that is near.
void CheckLayerTypes(const NetParameter& net, const LayerLines& lines = {});

}  // namespace caffe

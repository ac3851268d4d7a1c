#pragma once

#include <map>
#include <string>
#include <vector>

#include "caffe/core/shape.hpp"

namespace caffe {

// A layer between blobs, for tests that run over all types of layers.
struct LayerSample {
  std::string parameters;  // fields of the LayerParameter besides its type
  std::vector<Shape> bottoms{{2, 3, 4, 4}};
  int tops = 1;
  // The values of bottoms, by their index, where not any number will do.
  std::map<int, std::vector<double>> given{};
};

// Whether layers of this type compute only in a net: composite layers, and those of their nets.
bool NeedsNet(const std::string& type);

// At least one of every other type that the library registers; several where parameters decide
// about facts or about what Backward reads.
const std::map<std::string, std::vector<LayerSample>>& LayerSamples();

}  // namespace caffe

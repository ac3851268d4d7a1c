#pragma once

#include <string>
#include <vector>

#include "caffe/core/data_type.hpp"

namespace caffe {

// What Net, passes and tools must know of a layer type before one is made.
struct LayerTraits {
  // How many bottoms and tops; -1 is no limit.
  int min_bottom = 1, max_bottom = 1;
  int min_top = 1, max_top = 1;
  // A top may be the bottom's blob.
  bool in_place = false;
  // Tops are losses: the first has loss weight 1 by default, and makes itself if none is named.
  bool loss = false;
  // Makes data by itself: no bottom decides its type.
  bool data = false;
  // Bottoms and tops that are float whatever the layer's types are: labels.
  std::vector<int> float_bottoms, float_tops;
  // Bottoms that get no gradient: labels.
  std::vector<int> no_gradient_bottoms;
  // The layer has a backward pass at all.
  bool backward = true;
  // Types it can be asked for (compute, bottom and top equal).
  std::vector<DataType> types = FloatTypes();
  // Takes any pair of bottom and top types (the Quantizer layer).
  bool converts = false;
  // One line for `caffe layers`.
  std::string summary;
};

// The traits of a layer type, from the registry. Throws for an unknown name, with the nearest one.
const LayerTraits& TraitsOf(const std::string& type);

}  // namespace caffe

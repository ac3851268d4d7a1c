#pragma once

#include <vector>

#include "caffe/net/wiring.hpp"

namespace caffe {

// The tops that mode pseudo quantizes, by node: those that an integer net with the same layers
// would round to codes of their own.
//   - A layer with quantized types rounds its tops, unless these copy codes, or are labels.
//   - Nested layers of a layer with CompositeLayer::fixed_ranges round nothing by themselves, nor
//     does that layer.
//   - What a layer in float makes (data, LRN) is rounded if a layer with quantized types reads it.
//   - A layer with weights, and the BatchNorm, Scale or Bias layers and the activation that only
//     read
//     what the one before them wrote, are one step of an integer net: only its last top is rounded.
std::vector<std::vector<bool>> FindPseudoTops(const Wiring& wiring);

}  // namespace caffe

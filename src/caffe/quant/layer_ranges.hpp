#pragma once

#include <optional>

#include "caffe/quant/range.hpp"

namespace caffe {

class LayerParameter;

// The ranges that quantization_param of a layer gives, a field of Ristretto and of Intel Caffe:
// those of bottom 0, of top 0 and of the weights. With a scale s a code is the number times s: from
// 0 to 255 for bottoms, unless is_negative_input is set, otherwise -128 to 127. With fl, numbers of
// bw bits have fl bits behind the point (Gysel 2016, "Ristretto: Hardware-Oriented Approximation of
// Convolutional Neural Networks", section 5.1).
struct LayerRanges {
  std::optional<Range> bottom, top;
  std::optional<ChannelRanges> weights;
};

// Throws if fields are inconsistent or invalid. Warns if the precision is not that of fixed point;
// then there are no ranges.
LayerRanges ReadLayerRanges(const LayerParameter& layer);

}  // namespace caffe

#pragma once

#include "caffe/layer/layer_traits.hpp"

namespace caffe {

// The type in which a layer writes top `t` if it writes the others in `type`: float for float_tops,
// and for a loss, which is a sum over many items, unless `type` is double.
DataType TypeOfTop(const LayerTraits& traits, int t, DataType type);

}  // namespace caffe

#pragma once

#include <string>

#include "caffe/core/shape.hpp"

namespace caffe {

enum class InputUser { kForward, kQuantize };

// The message for an array of shape `given` for an input blob of shape `wanted`, with the cure. Shapes
// are printed as Python's tuples. kForward speaks of net.forward, kQuantize of a batch of
// caffe.quantize, which may have fewer items than the blob.
std::string InputShapeFault(const std::string& name, const Shape& given, const Shape& wanted,
                            InputUser user);

}  // namespace caffe

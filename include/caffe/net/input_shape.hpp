#pragma once

#include <string>

#include "caffe/core/shape.hpp"

namespace caffe {

enum class InputUser { kForward, kBatch };

// The message for an array of shape `given` for an input blob of shape `wanted`, with the cure.
// Shapes are printed as Python's tuples. kForward is net.forward; kBatch is a batch of
// caffe.quantize or caffe.transform.
std::string InputShapeFault(const std::string& name, const Shape& given, const Shape& wanted,
                            InputUser user);

}  // namespace caffe

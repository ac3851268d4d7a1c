#pragma once

#include <memory>

#include "caffe/library/convolution.hpp"

namespace caffe {

class Device;

// A convolution of floats with channels last, in which every channel is a group:
// kernels/conv/depthwise_last.h.
std::unique_ptr<ConvOp> MakeFloatWindows(Device* device, const ConvDescriptor& descriptor);

}  // namespace caffe

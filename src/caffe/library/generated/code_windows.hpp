#pragma once

#include <memory>

#include "caffe/library/convolution.hpp"

namespace caffe {

class Device;

// A convolution of codes with channels last in which every channel is a group:
// kernels/quant/windows.h, and for small windows kernels/quant/window_columns.h.
std::unique_ptr<ConvOp> MakeCodeWindows(Device* device, const ConvDescriptor& descriptor);

}  // namespace caffe

#pragma once

#include <memory>

#include "caffe/library/convolution.hpp"

namespace caffe {

// Convolutions of codes whose channels are last in y, and last or first in x.
bool SupportsByteConvolution(const ConvDescriptor& descriptor);
std::unique_ptr<ConvOp> MakeByteConvolution(Device* device, const ConvDescriptor& descriptor);
// Every channel is a group; channels are last in x.
std::unique_ptr<ConvOp> MakeByteDepthwise(Device* device, const ConvDescriptor& descriptor);

}  // namespace caffe

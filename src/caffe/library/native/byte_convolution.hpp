#pragma once

#include <memory>

#include "caffe/library/convolution.hpp"

namespace caffe {

// Every channel is a group; channels are last in x.
std::unique_ptr<ConvOp> MakeByteDepthwise(Device* device, const ConvDescriptor& descriptor);

}  // namespace caffe

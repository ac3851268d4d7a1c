#pragma once

#include <memory>

#include "caffe/library/convolution.hpp"

namespace caffe {

class Device;

namespace onednn {

// Throws if oneDNN cannot compute it.
std::unique_ptr<ConvOp> MakeConvolution(Device* device, const ConvDescriptor& descriptor);

}  // namespace onednn

}  // namespace caffe

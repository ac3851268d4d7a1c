#pragma once

#include <memory>

#include "caffe/library/convolution.hpp"

namespace caffe {

class Device;

namespace onednn {

// Whether a convolution is a forward pass with windows of one element, without padding, of a half
// kind with channels last.
bool IsPoints(const ConvDescriptor& descriptor);

// Computes it in float. Threads take blocks of positions: a block is widened, multiplied and
// narrowed while it is in the cache. `library` is the name of the operator. Throws dnnl::error.
std::unique_ptr<ConvOp> MakeWidePoints(Device* device, const ConvDescriptor& descriptor,
                                       const char* library);

}  // namespace onednn

}  // namespace caffe

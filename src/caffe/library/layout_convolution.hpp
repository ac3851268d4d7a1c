#pragma once

#include <memory>

#include "caffe/library/convolution.hpp"

namespace caffe {

// A convolution in the layouts of `descriptor` by `inner`, which computes it in others. `library`
// is the name of its row.
std::unique_ptr<ConvOp> MakeConverted(Device* device, const ConvDescriptor& descriptor,
                                      std::unique_ptr<ConvOp> inner, const char* library);

}  // namespace caffe

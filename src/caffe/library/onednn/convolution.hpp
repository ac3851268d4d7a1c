#pragma once

#include <memory>

#include "caffe/library/convolution.hpp"

namespace caffe {

class Device;

namespace onednn {

// The names of the two rows in the table of libraries: operands in their own type, if the processor
// multiplies it, and operands of bfloat16 that are widened.
constexpr char kRow[] = "onednn", kWideRow[] = "onednn_float";

// Throws if oneDNN cannot compute it.
std::unique_ptr<ConvOp> MakeConvolution(Device* device, const ConvDescriptor& descriptor,
                                        bool widens);

}  // namespace onednn

}  // namespace caffe

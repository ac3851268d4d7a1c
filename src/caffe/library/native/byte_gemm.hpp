#pragma once

#include <memory>

#include "caffe/library/gemm.hpp"

namespace caffe {

// Products of rows of codes of 8 bits with rows of weights. Prepared weights have one byte.
bool SupportsByteProduct(const GemmDescriptor& descriptor);
std::unique_ptr<GemmOp> MakeByteProduct(Device* device, const GemmDescriptor& descriptor);

}  // namespace caffe

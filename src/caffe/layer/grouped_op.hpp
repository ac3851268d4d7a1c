#pragma once

#include <cstdint>

#include "caffe/device/device_ptr.hpp"
#include "caffe/layer/work.hpp"
#include "caffe/memory/blob.hpp"

namespace caffe {

// One way of computing a GroupedLayer, with the weights of all groups. The functions are those of
// WeightedOp and Work.
class GroupedOp {
 public:
  struct Operands {
    const BlobBase* x = nullptr;
    const BlobBase* offsets = nullptr;  // the first row of each group, and the end of the last one
    BlobBase* y = nullptr;
    const BlobBase *residual = nullptr, *slopes = nullptr;  // of the epilogue; null: none
    DevicePtr workspace = {};
  };
  virtual ~GroupedOp() = default;
  virtual const char* library() const = 0;
  virtual int64_t workspace_bytes() const = 0;
  // The products in the sums of Run if all rows are in use.
  virtual int64_t products() const = 0;
  // The bytes of the parameters of as many groups as Run can use.
  virtual int64_t parameter_bytes() const = 0;
  virtual void CountMemory(WorkMemory* memory) const = 0;
  virtual void Prepare() = 0;
  virtual void Run(const Operands& operands) = 0;
};

}  // namespace caffe

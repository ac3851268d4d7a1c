#pragma once

#include <memory>

#include "caffe/memory/blob.hpp"

namespace caffe {

// Finds the smallest and the largest finite value of blobs, on the device: kernels/quant/min_max.h.
class MinMax {
 public:
  MinMax(DataType type, Device* device);
  // For `range`, which has three numbers: low, high, and whether an infinity or NaN was left out.
  static std::shared_ptr<BlobBase> MakeRange(DataType type, Device* device);
  // Widens the range by the values of the blob. Does not wait.
  void Add(const BlobBase& blob, BlobBase* range);

 private:
  bool apart_;  // neighbouring work items read neighbouring elements
  std::shared_ptr<BlobBase> parts_;
  std::unique_ptr<Kernel> chunks_, merge_;
};

}  // namespace caffe

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

  // The first step alone, for an array: three numbers for each of the chunks, whose number it
  // returns. `parts` has room for kPartNumbers.
  int64_t FindParts(DevicePtr x, int64_t count, DevicePtr parts);
  static constexpr int64_t kMostChunks = 1024, kPartNumbers = 3 * kMostChunks;

 private:
  bool apart_;  // neighbouring work items read neighbouring elements
  std::shared_ptr<BlobBase> parts_;
  std::unique_ptr<Kernel> chunks_, merge_;
};

}  // namespace caffe

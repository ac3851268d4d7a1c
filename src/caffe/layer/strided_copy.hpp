#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "caffe/memory/blob.hpp"

namespace caffe {

// Copies an array between two orders or windows of its elements, for permutations, crops and
// repetitions: y[sum of index * y_stride] = x[sum of index * x_stride] for all indices. Codes are
// copied unchanged.
class StridedCopy {
 public:
  struct Axis {
    int64_t extent, x_stride, y_stride;
  };

  StridedCopy() = default;
  StridedCopy(Device* device, const TypeTriple& types);
  // The axes from the outermost to the innermost in y; called in Reshape. Axes of one element are
  // dropped, and axes that are contiguous in x and in y are merged.
  void Reshape(const std::vector<Axis>& axes);
  void Launch(KernelArgument x, KernelArgument y);

  // The strides of each axis of an array of this shape.
  static std::vector<int64_t> Strides(const Shape& shape);

 private:
  Device* device_ = nullptr;
  int64_t element_bytes_ = 0;
  Axis inner_{1, 1, 1};
  int64_t rows_ = 1;
  std::vector<int64_t> outer_;       // extent, x_stride and y_stride of each axis outside `inner_`
  std::shared_ptr<BlobBase> table_;  // the same on the device: i64 in a blob of 8 bytes each
  std::unique_ptr<Kernel> copy_;
};

}  // namespace caffe

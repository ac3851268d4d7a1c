#pragma once

#include <cmath>
#include <cstdint>
#include <memory>

#include "caffe/memory/blob.hpp"
#include "caffe/quant/histogram.hpp"
#include "caffe/quant/min_max.hpp"

namespace caffe {

// Collects the smallest and largest value that a blob of a float kind ever held, in float (double
// for double), and a histogram of all its values. They stay on the device: observing launches five
// kernels and does not wait. The memory does not depend on the size of the blob. Infinities and
// NaN are left out.
class RangeObserver {
 public:
  // Scratch memory, which the observers of a device can use in turn.
  static std::shared_ptr<BlobBase> MakeScratch(Device* device);
  RangeObserver(DataType type, Device* device, std::shared_ptr<BlobBase> scratch = nullptr);
  void Observe(const BlobBase& blob);
  // Widens the range by another one, for example one read from a file.
  void Merge(double low, double high);
  struct Range {
    bool observed = false;  // a finite element was seen; else low > high
    bool lost = false;      // an infinity or NaN was left out
    double low, high;
  };
  // Both wait for the device. The histogram has no values of merged ranges.
  Range Read() const;
  Histogram ReadHistogram() const;

 private:
  DataType type_;
  Device* device_;
  MinMax min_max_;
  std::shared_ptr<BlobBase> range_;  // (low, high, lost), as in kernels/quant/min_max.h
  std::shared_ptr<BlobBase> scratch_, limit_, counts_;  // see kernels/quant/histogram.h
  double merged_low_ = INFINITY, merged_high_ = -INFINITY;
  std::unique_ptr<Kernel> widen_, count_, add_;
};

// Scale and zero point of the affine quantization of [low, high] to the codes of `type` (thesis of
// Tschopp 2018, eq. 1.1-1.3 with gemmlowp's conditions): the range is widened to include 0, the
// zero point is an integer, 0 is exact. [0, 0] gives scale 1 and zero point 0. Throws on NaN,
// infinities and low > high.
QuantRange AffineRange(double low, double high, DataType type);

}  // namespace caffe

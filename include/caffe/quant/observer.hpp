#pragma once

#include <cstdint>
#include <memory>

#include "caffe/memory/blob.hpp"

namespace caffe {

// Collects the smallest and largest value that a blob of a float kind ever held. Both stay on the
// device: observing launches two kernels and waits for nothing. NaN is left out.
class RangeObserver {
 public:
  RangeObserver(DataType type, Device* device);
  void Observe(const BlobBase& blob);
  // Widens the range by one that was observed elsewhere (read from a file).
  void Merge(double low, double high);
  bool observed() const { return observed_; }
  // Wait for the device. 0 where nothing was observed.
  double low() const;
  double high() const;

 private:
  DataType type_;
  Device* device_;
  std::shared_ptr<BlobBase> pairs_, range_;
  std::unique_ptr<Kernel> chunks_, merge_;
  bool observed_ = false;
};

// Scale and zero point of the affine quantization of [low, high] to the codes of `type` (thesis of
// Tschopp 2018, eq. 1.1-1.3 with gemmlowp's conditions): the range is widened to include 0, the zero
// point is an integer, 0 is exact. [0, 0] gives scale 1 and zero point 0. Throws on NaN, infinities
// and low > high.
QuantRange AffineRange(double low, double high, DataType type);

}  // namespace caffe

#pragma once

#include <memory>

#include "caffe/memory/blob.hpp"
#include "caffe/quant/histogram.hpp"
#include "caffe/quant/min_max.hpp"
#include "caffe/quant/range.hpp"

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
  void Merge(const Range& range) { merged_.Unite({range.low, range.high}); }
  // These wait for the device. The range is not known if no finite element was seen. The histogram
  // has no values of merged ranges.
  Range Read() const;
  bool lost() const;  // an infinity or NaN was left out
  Histogram ReadHistogram() const;

 private:
  DataType type_;
  Device* device_;
  MinMax min_max_;
  std::shared_ptr<BlobBase> range_;  // (low, high, lost), as in kernels/quant/min_max.h
  std::shared_ptr<BlobBase> scratch_, limit_, counts_;  // see kernels/quant/histogram.h
  Range merged_;
  std::unique_ptr<Kernel> widen_, count_, add_;
};

}  // namespace caffe

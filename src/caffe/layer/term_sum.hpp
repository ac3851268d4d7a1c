#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "caffe/layer/invalid_item.hpp"
#include "caffe/memory/blob.hpp"

namespace caffe {

// The sum of a layer's terms, on the device, in a fixed order:
//   y = sum of values / max(1, divisor)
// for losses and accuracies. Terms, sums and divisor are float, double for double.
//
// A kernel can mark a term as invalid, for example if a label is not a class. Then y is NaN, also
// in later launches, until TakeInvalid has reported the term to the host; the divisor does not
// count the term. A caller that reads a finite y need not call TakeInvalid, and nothing waits for
// the device in between.
class TermSum {
 public:
  // Creates it, or moves it to another device. Call this first. `types` are the layer's; y has
  // their out type.
  void Place(Device* device, const TypeTriple& types);
  // Sets the number of terms; called in Reshape.
  void Reshape(int64_t count);
  int64_t count() const { return count_; }
  // [2, count]: the values, then the weight of each: 1, 0 if it is ignored, NaN if it is invalid;
  // the value is then the invalid input, the label.
  BlobBase& terms() { return *terms_; }
  const BlobBase& terms() const { return *terms_; }
  // `divisor` 0 means the sum of the weights.
  void Divide(double divisor, BlobBase* y);
  // One element: max(1, divisor) of the last Divide.
  const BlobBase& divisor() const { return *divisor_; }

  // The first invalid term since the last call, if there was one. Waits for the device.
  std::optional<InvalidItem::Item> TakeInvalid() { return invalid_.Take(); }

 private:
  int64_t count_ = 0, parts_ = 0;
  std::shared_ptr<BlobBase> terms_, part_sums_, divisor_;
  InvalidItem invalid_;
  std::unique_ptr<Kernel> sum_parts_, divide_;
};

}  // namespace caffe

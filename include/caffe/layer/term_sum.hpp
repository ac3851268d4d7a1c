#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "caffe/layer/invalid_item.hpp"
#include "caffe/memory/blob.hpp"

namespace caffe {

// The sum of a layer's terms, on the device and in an order that does not change:
//   y = sum of values / max(1, divisor)
// for losses and accuracies. Terms, sums and divisor are float, double for double.
//
// A kernel can mark a term as invalid, for example because of a label that names no class. Then y is
// NaN, also in later launches, until TakeInvalid has told the host; the divisor leaves the term out.
// A caller that reads a finite y need not ask, and nothing waits for the device in between.
class TermSum {
 public:
  // Makes it, or moves it to another device. Before anything else. `types` are the layer's; y has
  // their out type.
  void Place(Device* device, const TypeTriple& types);
  // How many terms there are. Called in Reshape.
  void Reshape(int64_t count);
  int64_t count() const { return count_; }
  // [2, count]: the values, then the weight of each: 1, 0 if it does not count, NaN if it is invalid;
  // the value is then what was wrong, the label.
  BlobBase& terms() { return *terms_; }
  const BlobBase& terms() const { return *terms_; }
  // `divisor` 0 stands for the sum of the weights.
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

#pragma once

#include <cstdint>
#include <memory>

#include "caffe/memory/blob.hpp"

namespace caffe {

// The sum of a layer's terms, on the device and in an order that does not change:
//   y = sum of values / max(1, divisor)
// for losses and accuracies. Terms, sums and divisor are float, double for double.
class TermSum {
 public:
  // Makes it, or moves it to another device. Before anything else. `types` are the layer's; y has
  // their out type.
  void Place(Device* device, const TypeTriple& types);
  // How many terms there are. Called in Reshape.
  void Reshape(int64_t count);
  int64_t count() const { return count_; }
  // [2, count]: the values, then the weight of each, that is 1, or 0 if it does not count.
  BlobBase& terms() { return *terms_; }
  const BlobBase& terms() const { return *terms_; }
  // `divisor` 0 stands for the sum of the weights.
  void Divide(double divisor, BlobBase* y);
  // One element: max(1, divisor) of the last Divide.
  const BlobBase& divisor() const { return *divisor_; }

 private:
  int64_t count_ = 0, parts_ = 0;
  std::shared_ptr<BlobBase> terms_, part_sums_, divisor_;
  std::unique_ptr<Kernel> sum_parts_, divide_;
};

}  // namespace caffe

#pragma once

#include <cstdint>
#include <memory>

#include "caffe/core/data_type.hpp"
#include "caffe/device/device_ptr.hpp"
#include "caffe/device/kernel.hpp"
#include "caffe/library/epilogue.hpp"

namespace caffe {

class Device;

// Bias and activation over y [outer, channels, inner], in place or not, and the bias' gradient.
// `type` is a float kind, `bias_type` is float or double (double only for double).
class BiasOp {
 public:
  // `forward` and `backward` say which passes to make ready.
  BiasOp(Device* device, DataType type, DataType bias_type, int64_t outer, int64_t channels,
         int64_t inner, bool forward = true, bool backward = true);
  // y = activation(x + bias[channel]); a null bias leaves it out.
  void Forward(DevicePtr x, DevicePtr bias, DevicePtr y, const Activation& activation);
  // b_diff[channel] += the sum of y_diff over outer and inner.
  void Backward(DevicePtr y_diff, DevicePtr b_diff, DevicePtr workspace);
  // Of Backward.
  int64_t workspace_bytes() const { return parts_bytes_; }

 private:
  Device* device_;
  int64_t outer_, channels_, inner_;
  int64_t slices_ = 1;  // work groups that share the sum of one channel
  std::unique_ptr<Kernel> rows_, columns_, activate_, backward_, accumulate_;
  int64_t parts_bytes_ = 0;  // partial sums, where there are several slices
};

}  // namespace caffe

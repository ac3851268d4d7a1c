#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "caffe/core/data_type.hpp"
#include "caffe/device/device_ptr.hpp"
#include "caffe/device/kernel.hpp"
#include "caffe/library/epilogue.hpp"

namespace caffe {

class Device;
class EpiloguePass;

// Bias and stages over y [outer, channels, inner], in place or not, and the bias' gradient.
// `type` is a float kind, `bias_type` is float or double (double only for double).
class BiasOp {
 public:
  // `forward` and `backward` say which passes to make ready; any axis but kNone of the epilogue is
  // that of the channels.
  BiasOp(Device* device, DataType type, DataType bias_type, int64_t outer, int64_t channels,
         int64_t inner, std::optional<Epilogue> forward, bool backward);
  ~BiasOp();
  // y = stages(x + bias[channel]).
  void Forward(DevicePtr x, DevicePtr bias, DevicePtr y, const EpilogueOperands& operands = {});
  // b_diff[channel] += the sum of y_diff over outer and inner. With inner = 1 a workspace is not
  // required; with one, work groups share the sums over many rows.
  void Backward(DevicePtr y_diff, DevicePtr b_diff, DevicePtr workspace);
  // The workspace of Backward.
  int64_t workspace_bytes() const { return parts_bytes_; }

 private:
  int64_t ChannelGroups() const;

  Device* device_;
  int64_t outer_, channels_, inner_;
  int64_t slices_ = 1;  // work groups that share the sum of one channel
  std::unique_ptr<EpiloguePass> forward_;
  std::unique_ptr<Kernel> backward_, rows_, accumulate_;
  int64_t parts_bytes_ = 0;  // partial sums, where there are several slices
};

}  // namespace caffe

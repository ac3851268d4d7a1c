#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "caffe/memory/blob.hpp"

namespace caffe {

// Values that change between iterations and live on the device, so that a replayed run of launches
// sees the new values: kernels read them through pointers, never as scalar arguments. A net owns
// it.
class StepState {
 public:
  explicit StepState(Device* device);

  // Indices in reals, floats; kernels know them as the defines of kernels/dialect/training.h.
  // kernels/solver/decide.h writes those from kLossScale to kClip and from kGoodSteps on.
  enum Real {
    kRate = 0,
    kLossScale = 1,   // factor on the seeds of the backward pass
    kSkip = 2,        // not 0: this iteration's update does nothing
    kClip = 3,        // factor on gradients: clipping times the inverse of the loss scale
    kCorrection = 4,  // Adam's
    kGoodSteps = 5,   // since the loss scale changed
    kNorm = 6,        // L2 norm of all gradients
    kSkippedSteps = 7,
    kReals = 8
  };

  DevicePtr reals() const { return reals_.device_data(); }
  DevicePtr mutable_reals() { return reals_.mutable_device_data(); }

  // Sets a value from the host: one small upload, or none if the value has not changed since the
  // last Set. Never waits. Get downloads.
  void Set(Real place, float value);
  float Get(Real place) const;
  void SetDevice(Device* device);

 private:
  Blob<float> reals_;
  std::array<float, kReals> last_set_;  // NaN for values that kernels write
};

}  // namespace caffe

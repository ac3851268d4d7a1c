#include "caffe/layer/step_state.hpp"

#include <limits>

#include "../../../kernels/dialect/training.h"

namespace caffe {

static_assert(StepState::kRate == STEP_RATE && StepState::kLossScale == STEP_LOSS_SCALE &&
              StepState::kSkip == STEP_SKIP && StepState::kClip == STEP_FACTOR &&
              StepState::kCorrection == STEP_CORRECTION &&
              StepState::kGoodSteps == STEP_GOOD_STEPS && StepState::kNorm == STEP_NORM &&
              StepState::kSkippedSteps == STEP_SKIPPED_STEPS);

StepState::StepState(Device* device) : reals_(device, {kReals}) {
  reals_.set_name("step state");
  float* reals = reals_.mutable_cpu_data();
  reals[kLossScale] = 1;
  reals[kClip] = 1;
  reals[kCorrection] = 1;
  last_set_.fill(std::numeric_limits<float>::quiet_NaN());
}

void StepState::Set(Real place, float value) {
  if (last_set_[place] == value) return;
  reals_.device()->Upload(reals_.mutable_device_data() + place * int64_t{sizeof(float)}, &value,
                          sizeof(float));
  if (place == kRate || place == kCorrection) last_set_[place] = value;
}

float StepState::Get(Real place) const { return reals_.cpu_data()[place]; }

void StepState::SetDevice(Device* device) { reals_.SetDevice(device); }

}  // namespace caffe

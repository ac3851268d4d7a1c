#include "caffe/layer/step_state.hpp"

#include <cstring>
#include <limits>

#include "caffe/device/program_builder.hpp"

namespace caffe {

StepState::StepState(Device* device) : reals_(device, {kReals}), counters_(device, {kCounters}) {
  reals_.set_name("step state");
  counters_.set_name("step counters");
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

int32_t StepState::forward_counter() const {
  int32_t value;
  std::memcpy(&value, counters_.cpu_data() + kForward, sizeof(value));
  return value;
}

void StepState::set_forward_counter(int32_t value) {
  std::memcpy(counters_.mutable_cpu_data() + kForward, &value, sizeof(value));
}

void StepState::AdvanceForward() {
  if (!advance_) {
    advance_ = ProgramBuilder(counters_.device(), "step")
                   .Body("solver/step")
                   .Build()
                   ->CreateKernel("step_advance");
  }
  advance_->Launch(1, {1, counters_.MutableData()});
}

void StepState::SetDevice(Device* device) {
  reals_.SetDevice(device);
  counters_.SetDevice(device);
  advance_.reset();
}

}  // namespace caffe

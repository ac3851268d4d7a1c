#pragma once

#include <memory>

#include "caffe/layer/layer.hpp"
#include "caffe/layer/step_state.hpp"

namespace caffe {

// What the random numbers of a layer's forward depend on besides its seed: a counter on the device,
// so that a replayed run of launches draws new ones, and a backward pass draws the same once more.
// It is the net's, or the layer's own where there is no net that trains.
class ForwardCounter {
 public:
  ForwardCounter() = default;
  explicit ForwardCounter(const LayerContext& context)
      : state_(context.step_state),
        own_(context.step_state ? nullptr : std::make_unique<StepState>(context.device)) {}
  // Called before the launches of a forward.
  void Advance() {
    if (own_) own_->AdvanceForward();
  }
  // An argument IN(i32, counters): element 0 counts.
  KernelArgument counters() const { return (own_ ? own_.get() : state_)->counters(); }

 private:
  StepState* state_ = nullptr;
  std::unique_ptr<StepState> own_;
};

}  // namespace caffe

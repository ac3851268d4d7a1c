#pragma once

#include "caffe/net/pass_observer.hpp"
#include "gradients.hpp"

namespace caffe {

// The log lines of debug_info: the mean absolute values of tops, parameters and their gradients.
class DebugLines final : public PassObserver {
 public:
  DebugLines(const Wiring& wiring, const Gradients& gradients)
      : wiring_(wiring), gradients_(gradients) {}
  void AfterForward(const Node& node) override;
  void AfterBackward(const Node& node) override;
  void AfterBackwardPass() override;

 private:
  const Wiring& wiring_;
  const Gradients& gradients_;
};

}  // namespace caffe

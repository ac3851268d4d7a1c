#pragma once

#include "caffe/net/build/gradients.hpp"
#include "caffe/net/pass_observer.hpp"

namespace caffe {

// The log lines of debug_info: the mean absolute values of tops, parameters and their gradients. A
// composite layer may ask for those of its nested layers alone (CompositeLayer::debug_info).
class DebugLines final : public PassObserver {
 public:
  DebugLines(const Wiring& wiring, const Gradients& gradients)
      : wiring_(wiring), gradients_(gradients) {}
  const char* name() const override { return "debug_info"; }
  // Whether lines are written for all layers, or only for the nested ones for which a composite
  // layer asks.
  void set_all(bool value) { all_ = value; }
  bool any() const;
  void AfterForward(const Node& node) override;
  void AfterBackward(const Node& node) override;
  void AfterBackwardPass() override;

 private:
  bool Asks(const LayerBase& layer) const;
  bool Shows(const Node& node) const;

  bool all_ = false;
  const Wiring& wiring_;
  const Gradients& gradients_;
};

}  // namespace caffe

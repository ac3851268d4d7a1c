#pragma once

#include "caffe/net/wiring.hpp"

namespace caffe {

// Called for each layer that a forward or backward pass runs, in the order of the pass. May throw
// to end the pass. Examples: the lines of debug_info, the check for NaN, observing ranges,
// callbacks of the user, Ctrl-C.
class PassObserver {
 public:
  virtual ~PassObserver() = default;
  // For log lines: "debug_info", for example.
  virtual const char* name() const { return "an observer"; }
  // True if every layer must have written its tops when AfterForward is called: the pass then runs
  // layer by layer. If false, it may be called only for the first layer of each step.
  virtual bool per_layer() const { return true; }
  // True if it must be called between all steps as they run, as for measuring them: steps are not
  // replayed as graphs then.
  virtual bool per_step() const { return false; }
  virtual void BeforeForward(const Node& node) {}
  virtual void AfterForward(const Node& node) {}
  virtual void BeforeBackward(const Node& node) {}
  virtual void AfterBackward(const Node& node) {}
  // Called after all layers have run backward.
  virtual void AfterBackwardPass() {}
};

}  // namespace caffe

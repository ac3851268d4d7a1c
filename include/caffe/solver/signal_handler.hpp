#pragma once

#include "caffe/solver/solver_action.hpp"

namespace caffe {

// Turns SIGINT and SIGHUP into actions while it lives; the earlier handlers come back afterwards.
// A second SIGINT that arrives before the first was answered ends the process as usual. Only one
// may live at a time: the constructor throws otherwise.
class SignalHandler {
 public:
  SignalHandler(SolverAction on_interrupt, SolverAction on_hangup);
  ~SignalHandler();
  SignalHandler(const SignalHandler&) = delete;
  SignalHandler& operator=(const SignalHandler&) = delete;

  // The action of a signal that arrived since the last call.
  SolverAction Poll();

 private:
  SolverAction on_interrupt_, on_hangup_;
};

}  // namespace caffe

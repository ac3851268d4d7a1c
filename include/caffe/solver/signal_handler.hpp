#pragma once

#include "caffe/solver/solver_action.hpp"

namespace caffe {

// Turns SIGINT, SIGHUP and SIGTERM into actions while it exists; the destructor restores the
// earlier handlers. Only one may exist at a time: the constructor throws otherwise.
//
// If SIGINT stops training, a second SIGINT ends the process at once, even while the last snapshot
// is written. A second SIGTERM is ignored: init systems and schedulers may send it twice, and end a
// process with SIGKILL. The first signal that stops prints a line about this.
class SignalHandler {
 public:
  // Whose the process is. In a process of others SIGINT is left alone, and so is a signal that is
  // ignored (nohup) or for which there is a handler already. There the destructor raises a signal
  // again if Poll was not called after it.
  enum class Process { kOwn, kOfOthers };

  SignalHandler(SolverAction on_interrupt, SolverAction on_hangup,
                SolverAction on_terminate = SolverAction::kStop, Process process = Process::kOwn);
  ~SignalHandler();
  SignalHandler(const SignalHandler&) = delete;
  SignalHandler& operator=(const SignalHandler&) = delete;

  // The action of a signal that arrived since the last call.
  SolverAction Poll();
  // The signal for which Poll returned kStop; 0 if there was none.
  int stopped_by() const { return stopped_by_; }

 private:
  SolverAction Answer(int signal, SolverAction action);

  SolverAction on_interrupt_, on_hangup_, on_terminate_;
  Process process_;
  int stopped_by_ = 0;
};

}  // namespace caffe

#include "caffe/solver/signal_handler.hpp"

#include <signal.h>

#include <atomic>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

volatile sig_atomic_t interrupts = 0, hangups = 0;
std::atomic<bool> installed{false};
struct sigaction old_interrupt, old_hangup;

void OnSignal(int signal) {
  if (signal == SIGHUP) {
    hangups = 1;
    return;
  }
  if (interrupts) {
    ::signal(SIGINT, SIG_DFL);
    ::raise(SIGINT);
  }
  interrupts = 1;
}

}  // namespace

SignalHandler::SignalHandler(SolverAction on_interrupt, SolverAction on_hangup)
    : on_interrupt_(on_interrupt), on_hangup_(on_hangup) {
  CAFFE_CHECK(!installed.exchange(true), "Tried to hookup signal handlers more than once.");
  interrupts = 0;
  hangups = 0;
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigfillset(&action.sa_mask);
  sigaction(SIGINT, &action, &old_interrupt);
  sigaction(SIGHUP, &action, &old_hangup);
}

SignalHandler::~SignalHandler() {
  sigaction(SIGINT, &old_interrupt, nullptr);
  sigaction(SIGHUP, &old_hangup, nullptr);
  installed = false;
}

SolverAction SignalHandler::Poll() {
  if (interrupts) {
    interrupts = 0;
    return on_interrupt_;
  }
  if (hangups) {
    hangups = 0;
    return on_hangup_;
  }
  return SolverAction::kNone;
}

}  // namespace caffe

#include "caffe/solver/signal_handler.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

// Signals that arrived and were not polled yet.
volatile sig_atomic_t interrupted = 0, hung_up = 0, terminated = 0;
// Set by Poll when it first returns kStop.
volatile sig_atomic_t stops = 0;
// Whether the action of the signal is kStop.
volatile sig_atomic_t interrupt_stops = 0, terminate_stops = 0;
std::atomic<bool> installed{false};

// A signal, whether its handler is OnSignal, and what it was before.
struct Hooked {
  int signal;
  bool taken;
  struct sigaction old;
};
Hooked hooked[] = {{SIGINT, false, {}}, {SIGHUP, false, {}}, {SIGTERM, false, {}}};

bool on_terminal = false;

// write() is the only way to print in a signal handler; its errors are ignored. On a terminal the
// line may show a progress bar, so the text begins with a line feed.
template <size_t size> void Say(const char (&text)[size]) {
  const int skipped = on_terminal ? 0 : 1;  // the line feed at the beginning
  [[maybe_unused]] const ssize_t count = ::write(STDERR_FILENO, text + skipped, size - 1 - skipped);
}

void OnSignal(int signal) {
  if (signal == SIGHUP) {
    hung_up = 1;
  } else if (signal == SIGTERM) {
    if (!terminated && !stops && terminate_stops) {
      Say("\nSIGTERM: stopping after this iteration.\n");
    }
    terminated = 1;
  } else if (interrupted || (stops && interrupt_stops)) {
    ::signal(SIGINT, SIG_DFL);
    ::raise(SIGINT);
  } else {
    if (interrupt_stops) {
      Say("\nSIGINT: stopping after this iteration. Another one ends at once, without a "
          "snapshot.\n");
    }
    interrupted = 1;
  }
}

}  // namespace

SignalHandler::SignalHandler(SolverAction on_interrupt, SolverAction on_hangup,
                             SolverAction on_terminate, Process process)
    : on_interrupt_(on_interrupt),
      on_hangup_(on_hangup),
      on_terminate_(on_terminate),
      process_(process) {
  CAFFE_CHECK(!installed.exchange(true), "Tried to hookup signal handlers more than once.");
  interrupted = 0;
  hung_up = 0;
  terminated = 0;
  stops = 0;
  on_terminal = ::isatty(STDERR_FILENO);
  interrupt_stops = on_interrupt == SolverAction::kStop;
  terminate_stops = on_terminate == SolverAction::kStop;
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigfillset(&action.sa_mask);
  for (Hooked& one : hooked) {
    sigaction(one.signal, nullptr, &one.old);
    const bool free = !(one.old.sa_flags & SA_SIGINFO) && one.old.sa_handler == SIG_DFL;
    one.taken = process == Process::kOwn || (free && one.signal != SIGINT);
    if (one.taken) sigaction(one.signal, &action, nullptr);
  }
}

SignalHandler::~SignalHandler() {
  for (Hooked& one : hooked) {
    struct sigaction now {};
    sigaction(one.signal, nullptr, &now);
    // Others may have installed a handler meanwhile.
    if (one.taken && now.sa_handler == OnSignal) sigaction(one.signal, &one.old, nullptr);
  }
  installed = false;
  if (process_ == Process::kOwn) return;
  if (hung_up) ::raise(SIGHUP);
  if (terminated) ::raise(SIGTERM);
}

SolverAction SignalHandler::Answer(int signal, SolverAction action) {
  if (action == SolverAction::kStop && stopped_by_ == 0) {
    stopped_by_ = signal;
    stops = 1;
  }
  return action;
}

SolverAction SignalHandler::Poll() {
  if (terminated) {
    terminated = 0;
    return Answer(SIGTERM, on_terminate_);
  }
  if (interrupted) {
    interrupted = 0;
    return Answer(SIGINT, on_interrupt_);
  }
  if (hung_up) {
    hung_up = 0;
    return Answer(SIGHUP, on_hangup_);
  }
  return SolverAction::kNone;
}

}  // namespace caffe

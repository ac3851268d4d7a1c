#include <chrono>

#include "bindings.hpp"
#include "caffe/net/net.hpp"
#include "net_lock.hpp"

namespace py = pybind11;

void CheckSignals() {
  using Clock = std::chrono::steady_clock;
  thread_local Clock::time_point looked;
  const auto now = Clock::now();
  if (now - looked < std::chrono::milliseconds(50)) return;
  looked = now;
  const InPython python;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

void AnswerSignals(caffe::Net& net) { net.set_interruption(&CheckSignals); }

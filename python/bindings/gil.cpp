#include "gil.hpp"

#include <cxxabi.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "caffe/core/process_mark.hpp"

namespace py = pybind11;

namespace {

// How many threads run C++ code without the GIL, and whether this thread is one of them.
std::atomic<int> running_threads{0};
thread_local bool is_running = false;

// Returns the value before.
bool SetRunning(bool running) {
  running_threads += static_cast<int>(running) - static_cast<int>(is_running);
  return std::exchange(is_running, running);
}

[[noreturn]] void Suspend() {
  while (true) ::pause();
}

// Calls a function of Python that waits for the GIL. Py_IsInitialized() is false as soon as the
// interpreter shuts down. The main thread does that, and may still use nets meanwhile.
template <class Call> auto SuspendIfPythonEnds(const Call& call) {
  const auto is_main_thread = [] { return ::gettid() == ::getpid(); };
  if (!Py_IsInitialized() && !is_main_thread()) Suspend();
  try {
    return call();
  } catch (const abi::__forced_unwind&) {
    Suspend();
  }
}

}  // namespace

// The GIL is held where a thread starts to run, so Python cannot end before the thread is counted.
WithoutGil::WithoutGil() {
  SetRunning(true);
  state_ = PyEval_SaveThread();
}

WithoutGil::~WithoutGil() {
  SetRunning(false);
  SuspendIfPythonEnds([&] { PyEval_RestoreThread(state_); });
}

WithGil::WithGil()
    : was_running_(SetRunning(false)),
      state_(SuspendIfPythonEnds([] { return PyGILState_Ensure(); })) {}

WithGil::~WithGil() {
  SetRunning(was_running_);
  PyGILState_Release(state_);
}

py::object CallPython(const py::object& function, const py::tuple& arguments) {
  PyObject* result =
      SuspendIfPythonEnds([&] { return PyObject_CallObject(function.ptr(), arguments.ptr()); });
  if (!result) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(result);
}

void WaitAtExit() {
  static const caffe::ProcessMark imported;
  // Called when the interpreter has shut down, before the destructors of static objects.
  Py_AtExit([] {
    if (imported.inherited()) return;  // the threads that were counted are not in this process
    for (int i = 0; i < 300 && running_threads > 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
}

#include "gil.hpp"

#include <cxxabi.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "caffe/core/process_mark.hpp"

namespace py = pybind11;

namespace {

std::atomic<bool> python_has_ended{false};
std::atomic<int> without_gil{0};  // WithoutGil objects of all threads that do not stay
thread_local int own_without_gil = 0;

// The main thread ends Python, and may still compute while it does.
bool IsMainThread() { return ::gettid() == ::getpid(); }

bool PythonEnds() {
#if PY_VERSION_HEX >= 0x030D0000
  return python_has_ended || Py_IsFinalizing();
#else
  return python_has_ended || _Py_IsFinalizing();
#endif
}

[[noreturn]] void Stay() {
  without_gil -= own_without_gil;
  while (true) ::pause();
}

// Python leaves a thread by pthread_exit, which unwinds like an exception.
template <class Call> auto StayWherePythonEndsIt(const Call& call) {
  try {
    return call();
  } catch (const abi::__forced_unwind&) {
    Stay();
  }
}

}  // namespace

WithoutGil::WithoutGil() : state_(PyEval_SaveThread()) {
  ++without_gil;
  ++own_without_gil;
}

WithoutGil::~WithoutGil() {
  StayIfPythonEnds();
  StayWherePythonEndsIt([&] { PyEval_RestoreThread(state_); });
  --own_without_gil;
  --without_gil;
}

WithGil::WithGil() {
  StayIfPythonEnds();
  state_ = StayWherePythonEndsIt([] { return PyGILState_Ensure(); });
}

WithGil::~WithGil() { PyGILState_Release(state_); }

py::object CallPython(const py::object& function, const py::tuple& arguments) {
  PyObject* result = StayWherePythonEndsIt(
      [&] { return PyObject_Call(function.ptr(), arguments.ptr(), nullptr); });
  if (!result) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(result);
}

void StayIfPythonEnds() {
  if (PythonEnds() && !IsMainThread()) [[unlikely]] {
    Stay();
  }
}

void WaitAtExit() {
  static const caffe::ProcessMark imported;
  // Called when Python has ended, with nothing of it left to be asked.
  Py_AtExit([] {
    python_has_ended = true;
    if (imported.inherited()) return;
    for (int i = 0; i < 300 && without_gil > own_without_gil; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
}

#pragma once

#include <pybind11/pybind11.h>

// Access to the GIL for threads that may still run when the interpreter shuts down (daemon
// threads). Before Python 3.14, such a thread is unwound when it asks for the GIL, and unwinding
// through C++ code ends the process with an error. The functions below suspend the thread instead.

// Releases the GIL.
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

// Takes the GIL. The thread may already hold it.
class WithGil {
 public:
  WithGil();
  ~WithGil();
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  const bool was_running_;
  PyGILState_STATE state_;
};

// Calls function(*arguments) from C++ code that a net or a solver runs. Needs the GIL.
pybind11::object CallPython(const pybind11::object& function, const pybind11::tuple& arguments);

// Called once: makes the process wait, at its end, for threads that run C++ code without the GIL.
void WaitAtExit();

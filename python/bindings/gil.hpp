#pragma once

#include <pybind11/pybind11.h>

// The GIL, for threads that the end of Python may leave behind (daemon threads). Where such a thread
// asks for the GIL, Python unwinds its stack, which ends the whole process at the first destructor;
// these classes keep it where it is until the process ends.

// Lets go of the GIL.
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

// Takes the GIL, from any thread, whether it has it already or not.
class WithGil {
 public:
  WithGil();
  ~WithGil();
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  PyGILState_STATE state_;
};

// function(*arguments), for code that was called without the GIL.
pybind11::object CallPython(const pybind11::object& function, const pybind11::tuple& arguments);

// Does not return once Python has begun to end, unless in the main thread. Needs no GIL.
void StayIfPythonEnds();

// Lets threads that still compute come to a place to stay at before the process ends.
void WaitAtExit();

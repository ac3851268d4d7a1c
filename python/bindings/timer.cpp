#include <chrono>

#include "bindings.hpp"
#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "gil.hpp"

namespace py = pybind11;

namespace {

using Clock = std::chrono::steady_clock;

// Time between start and stop, each taken when the thread's device has done what it was given.
class Timer {
 public:
  void Start() {
    caffe::Runtime::Get().default_device()->Synchronize();
    started_ = true;
    running_ = true;
    begin_ = Clock::now();
  }
  void Stop() {
    CAFFE_CHECK(running_, "the timer was stopped but not started");
    caffe::Runtime::Get().default_device()->Synchronize();
    end_ = Clock::now();
    running_ = false;
  }
  double Milliseconds() {
    CAFFE_CHECK(started_, "the timer was not started");
    if (running_) Stop();
    return std::chrono::duration<double, std::milli>(end_ - begin_).count();
  }

 private:
  bool started_ = false, running_ = false;
  Clock::time_point begin_, end_;
};

}  // namespace

void BindTimer(py::module_& module) {
  const py::call_guard<WithoutGil> release;
  py::class_<Timer>(module, "Timer",
                    "The time between start() and stop(), what the thread's device did included.")
      .def(py::init<>())
      .def("start", &Timer::Start, release, "Waits for the device and begins to count from zero.")
      .def("stop", &Timer::Stop, release,
           "Waits for the device and ends counting; RuntimeError unless the timer runs.")
      .def_property_readonly(
          "ms", &Timer::Milliseconds,
          "Milliseconds, float; stops a timer that runs. RuntimeError before the "
          "first start.");
}

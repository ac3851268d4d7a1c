#include <chrono>

#include "bindings.hpp"
#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "gil.hpp"

namespace py = pybind11;

namespace {

using Clock = std::chrono::steady_clock;

// The time between start and stop, each measured when the thread's device has finished its work.
class Timer {
 public:
  void Start() {
    caffe::Runtime::Get().default_device()->Synchronize();
    started_ = true;
    running_ = true;
    begin_ = Clock::now();
  }
  void Stop() {
    CAFFE_CHECK(running_, "stop: the timer is not running");
    caffe::Runtime::Get().default_device()->Synchronize();
    end_ = Clock::now();
    running_ = false;
  }
  double Milliseconds() {
    CAFFE_CHECK(started_, "the timer was never started");
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
  py::class_<Timer>(
      module, "Timer",
      "The time between start() and stop(), including the work of the thread's device.")
      .def(py::init<>())
      .def("start", &Timer::Start, release, "Waits for the device and starts from zero.")
      .def("stop", &Timer::Stop, release,
           "Waits for the device and stops; RuntimeError if the timer is not running.")
      .def_property_readonly("ms", &Timer::Milliseconds,
                             "Milliseconds, float; stops a running timer. RuntimeError before the "
                             "first start.");
}

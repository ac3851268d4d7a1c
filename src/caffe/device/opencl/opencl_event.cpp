#include "caffe/device/opencl/opencl_event.hpp"

#include <utility>

#include "caffe/core/error.hpp"

namespace caffe {

OpenClEvent::OpenClEvent(const Stream& stream, opencl::Handle<cl_event> reached,
                         opencl::Handle<cl_event> time, std::string where)
    : Event(stream),
      reached_(std::move(reached)),
      time_(std::move(time)),
      where_(std::move(where)) {}

OpenClEvent::OpenClEvent(const Stream& stream, std::vector<int> recorded, std::string where)
    : Event(stream), recorded_(std::move(recorded)), where_(std::move(where)) {}

void OpenClEvent::Wait() {
  made_in_.Check(where_);
  CAFFE_CHECK(reached_, where_, ": the host cannot wait for an event of a record");
  const cl_event event = reached_.get();
  opencl::Check(clWaitForEvents(1, &event), "clWaitForEvents", where_);
}

cl_ulong OpenClEvent::Nanoseconds() {
  CAFFE_CHECK(time_ != nullptr, where_, ": an event that was recorded without timing has no time");
  made_in_.Check(where_);
  const cl_event event = time_.get();
  opencl::Check(clWaitForEvents(1, &event), "clWaitForEvents", where_);
  cl_ulong nanoseconds = 0;
  opencl::Check(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof nanoseconds,
                                        &nanoseconds, nullptr),
                "clGetEventProfilingInfo", where_);
  return nanoseconds;
}

double OpenClEvent::SecondsSince(Event& start) {
  auto* first = dynamic_cast<OpenClEvent*>(&start);
  CAFFE_CHECK(first != nullptr && SameDevice(start), where_,
              ": the time between events of two devices is not defined");
  const cl_ulong begin = first->Nanoseconds(), end = Nanoseconds();
  return (static_cast<double>(end) - static_cast<double>(begin)) * 1e-9;
}

}  // namespace caffe

#include "caffe/device/opencl/opencl_event.hpp"

#include <utility>

#include "caffe/core/error.hpp"

namespace caffe {

OpenClEvent::OpenClEvent(opencl::Handle<cl_event> event, std::string where)
    : event_(std::move(event)), where_(std::move(where)) {}

void OpenClEvent::Wait() {
  made_in_.Check(where_);
  cl_event event = event_.get();
  opencl::Check(clWaitForEvents(1, &event), "clWaitForEvents", where_);
}

cl_ulong OpenClEvent::Nanoseconds() {
  Wait();
  cl_ulong nanoseconds = 0;
  opencl::Check(clGetEventProfilingInfo(event_.get(), CL_PROFILING_COMMAND_END, sizeof nanoseconds,
                                        &nanoseconds, nullptr),
                "clGetEventProfilingInfo", where_);
  return nanoseconds;
}

double OpenClEvent::SecondsSince(Event& start) {
  auto* first = dynamic_cast<OpenClEvent*>(&start);
  CAFFE_CHECK(first != nullptr && first->where_ == where_, where_,
              ": the events of two devices have no time between them");
  const cl_ulong begin = first->Nanoseconds(), end = Nanoseconds();
  return (static_cast<double>(end) - static_cast<double>(begin)) * 1e-9;
}

}  // namespace caffe

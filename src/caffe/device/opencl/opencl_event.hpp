#pragma once

#include <string>

#include "caffe/core/process_mark.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/opencl/opencl_api.hpp"

namespace caffe {

// A command in a queue that keeps times, which waits for the place that was recorded.
class OpenClEvent : public Event {
 public:
  OpenClEvent(opencl::Handle<cl_event> event, std::string where);
  void Wait() override;
  double SecondsSince(Event& start) override;

 private:
  cl_ulong Nanoseconds();

  opencl::Handle<cl_event> event_;
  const std::string where_;
  const ProcessMark made_in_;
};

}  // namespace caffe

#pragma once

#include <string>

#include "caffe/core/process_mark.hpp"
#include "caffe/device/opencl/opencl_api.hpp"
#include "caffe/device/stream.hpp"

namespace caffe {

// A marker in a queue. A timed event also has a command in a profiling queue that waits for the
// marker.
class OpenClEvent final : public Event {
 public:
  // `time` is null for an event without timing.
  OpenClEvent(const Stream& stream, opencl::Handle<cl_event> reached, opencl::Handle<cl_event> time,
              std::string where);
  void Wait() override;
  double SecondsSince(Event& start) override;
  cl_event reached() const { return reached_.get(); }

 private:
  cl_ulong Nanoseconds();

  opencl::Handle<cl_event> reached_, time_;
  const std::string where_;
  const ProcessMark made_in_;
};

}  // namespace caffe

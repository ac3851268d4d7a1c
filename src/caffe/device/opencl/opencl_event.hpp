#pragma once

#include <string>
#include <vector>

#include "caffe/core/process_mark.hpp"
#include "caffe/device/opencl/opencl_api.hpp"
#include "caffe/device/stream.hpp"

namespace caffe {

// A marker in a queue. A timed event also has a command in a profiling queue that waits for the
// marker. An event of a record has the commands of the record that it follows instead.
class OpenClEvent final : public Event {
 public:
  // `time` is null for an event without timing.
  OpenClEvent(const Stream& stream, opencl::Handle<cl_event> reached, opencl::Handle<cl_event> time,
              std::string where);
  OpenClEvent(const Stream& stream, std::vector<int> recorded, std::string where);
  void Wait() override;
  double SecondsSince(Event& start) override;
  cl_event reached() const { return reached_.get(); }
  const std::vector<int>& recorded() const { return recorded_; }

 private:
  cl_ulong Nanoseconds();

  opencl::Handle<cl_event> reached_, time_;
  std::vector<int> recorded_;
  const std::string where_;
  const ProcessMark made_in_;
};

}  // namespace caffe

#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "caffe/device/device.hpp"
#include "caffe/device/opencl/opencl_api.hpp"
#include "caffe/device/opencl/staging_ring.hpp"

namespace caffe {

class OpenClDevice;

// An in-order queue with staging memory of its own, which is made at the first upload: a thread's
// uploads never wait for the work of another stream. The destructor waits for the queue. It may
// outlive the device.
class OpenClStream final : public Stream {
 public:
  OpenClStream(OpenClDevice* device, opencl::Handle<cl_command_queue> queue);
  ~OpenClStream() override;
  std::unique_ptr<Event> Record(bool timed) override;
  void Synchronize() override;
  void* native() const override { return queue_.get(); }
  cl_command_queue queue() const { return queue_.get(); }
  opencl::StagingRing& staging();

 protected:
  void DoWaitFor(Event& event) override;
  void Flush() noexcept override;

 private:
  OpenClDevice& owner() const;
  // A command after `reached` whose profile has the time.
  opencl::Handle<cl_event> RecordTime(cl_event reached);

  const std::string where_;
  opencl::Handle<cl_command_queue> queue_;
  // Keeps the times of events. A queue with profiling triples the cost of a small copy (NVIDIA), so
  // the other one has none, and this one waits for its markers. Made at the first timed event.
  std::once_flag clock_made_;
  opencl::Handle<cl_command_queue> clock_queue_;
  opencl::Handle<cl_mem> clock_target_;
  std::once_flag staging_made_;
  std::unique_ptr<opencl::StagingRing> staging_;
};

}  // namespace caffe

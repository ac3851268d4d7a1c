#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "caffe/device/device.hpp"
#include "caffe/device/opencl/opencl_api.hpp"
#include "caffe/device/opencl/staging_ring.hpp"

namespace caffe {

class OpenClDevice;

// An in-order queue with its own staging memory, so that uploads never wait for the work of another
// stream. The memory is allocated at the first upload. The destructor waits for the queue. The
// stream may outlive the device.
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
  // Enqueues a command that waits for `reached` and whose profile has the time.
  opencl::Handle<cl_event> RecordTime(cl_event reached);

  const std::string where_;
  opencl::Handle<cl_command_queue> queue_;
  // The queue of events' times. Profiling triples the cost of a small copy (NVIDIA), so queue_ does
  // not profile, and this one waits for its markers. Created with the first timed event.
  std::once_flag clock_made_;
  opencl::Handle<cl_command_queue> clock_queue_;
  opencl::Handle<cl_mem> clock_target_;
  std::once_flag staging_made_;
  std::unique_ptr<opencl::StagingRing> staging_;
};

}  // namespace caffe

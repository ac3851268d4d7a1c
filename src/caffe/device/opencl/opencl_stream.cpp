#include "caffe/device/opencl/opencl_stream.hpp"

#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/device/opencl/opencl_device.hpp"
#include "caffe/device/opencl/opencl_event.hpp"

namespace caffe {

OpenClStream::OpenClStream(OpenClDevice* device, opencl::Handle<cl_command_queue> queue)
    : Stream(device), where_(device->where()), queue_(std::move(queue)) {}

OpenClStream::~OpenClStream() {
  if (!opencl::DriverIsGone()) {
    opencl::CheckQuietly(clFinish(queue_.get()), "clFinish", where_);
  }
  Retire();
}

OpenClDevice& OpenClStream::owner() const {
  CAFFE_CHECK(device() != nullptr, where_, ": the device of this stream was destroyed");
  return static_cast<OpenClDevice&>(*device());
}

opencl::StagingRing& OpenClStream::staging() {
  std::call_once(staging_made_, [&] {
    staging_ = std::make_unique<opencl::StagingRing>(owner().context(), queue_.get(), where_);
  });
  return *staging_;
}

opencl::Handle<cl_event> OpenClStream::RecordTime(cl_event reached) {
  std::call_once(clock_made_, [&] {
    cl_int code = CL_SUCCESS;
    clock_target_.reset(
        clCreateBuffer(owner().context(), CL_MEM_READ_WRITE, sizeof(cl_int), nullptr, &code));
    opencl::Check(code, "clCreateBuffer", where_);
    clock_queue_ = owner().MakeQueue(CL_QUEUE_PROFILING_ENABLE);
  });
  // A command that does some work: NVIDIA's driver reports time 0 for a marker that only waits.
  const cl_int zero = 0;
  cl_event event = nullptr;
  opencl::Check(clEnqueueFillBuffer(clock_queue_.get(), clock_target_.get(), &zero, sizeof zero, 0,
                                    sizeof zero, 1, &reached, &event),
                "clEnqueueFillBuffer", where_);
  opencl::Handle<cl_event> timed(event);
  opencl::Check(clFlush(clock_queue_.get()), "clFlush", where_);
  return timed;
}

std::unique_ptr<Event> OpenClStream::Record(bool timed) {
  owner().context();  // throws in a forked process
  if (opencl::Record* const record = owner().record()) {
    return std::make_unique<OpenClEvent>(*this, record->Ends(this), where_);
  }
  cl_event event = nullptr;
  opencl::Check(clEnqueueMarkerWithWaitList(queue_.get(), 0, nullptr, &event),
                "clEnqueueMarkerWithWaitList", where_);
  opencl::Handle<cl_event> reached(event);
  // Another queue may wait for the event; without this flush it might never be reached.
  opencl::Check(clFlush(queue_.get()), "clFlush", where_);
  opencl::Handle<cl_event> time;
  if (timed) time = RecordTime(reached.get());
  return std::make_unique<OpenClEvent>(*this, std::move(reached), std::move(time), where_);
}

void OpenClStream::Synchronize() {
  owner().context();
  opencl::Check(clFinish(queue_.get()), "clFinish", where_);
}

void OpenClStream::DoWaitFor(Event& event) {
  owner().context();
  const auto& awaited = static_cast<OpenClEvent&>(event);
  if (opencl::Record* const record = owner().record()) {
    CAFFE_CHECK(!awaited.reached(), where_, ": a record cannot wait for work outside of it");
    return record->WaitFor(this, awaited.recorded());
  }
  const cl_event reached = awaited.reached();
  CAFFE_CHECK(reached, where_, ": an event of a record has no meaning outside of it");
  opencl::Check(clEnqueueBarrierWithWaitList(queue_.get(), 1, &reached, nullptr),
                "clEnqueueBarrierWithWaitList", where_);
}

void OpenClStream::Flush() noexcept {
  if (opencl::DriverIsGone()) return;
  opencl::CheckQuietly(clFlush(queue_.get()), "clFlush", where_);
}

}  // namespace caffe

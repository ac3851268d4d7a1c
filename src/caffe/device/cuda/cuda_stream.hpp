#pragma once

#include <memory>
#include <string>

#include "caffe/device/cuda/cuda_context.hpp"
#include "caffe/device/cuda/cuda_staging.hpp"
#include "caffe/device/stream.hpp"

namespace caffe::cuda {

class CudaStream;

class CudaEvent final : public Event {
 public:
  CudaEvent(const CudaStream& stream, bool timed);
  ~CudaEvent() override;
  void Wait() override;
  double SecondsSince(Event& start) override;
  CUevent event() const { return event_; }

 private:
  std::shared_ptr<CudaContext> context_;
  const bool timed_;
  CUevent event_ = nullptr;
};

// A queue that does not wait for the legacy stream 0. It has its own staging memory, so that
// uploads and downloads never wait for the work of another stream.
class CudaStream final : public Stream {
 public:
  CudaStream(Device* device, std::shared_ptr<CudaContext> context);
  ~CudaStream() override;
  std::unique_ptr<Event> Record(bool timed) override;
  void Synchronize() override;
  void* native() const override { return stream_; }
  CUstream stream() const { return stream_; }
  CudaStaging& staging() { return *staging_; }
  const std::shared_ptr<CudaContext>& context() const { return context_; }

 protected:
  void DoWaitFor(Event& event) override;

 private:
  std::shared_ptr<CudaContext> context_;
  CUstream stream_ = nullptr;
  std::unique_ptr<CudaStaging> staging_;
};

}  // namespace caffe::cuda

#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "caffe/device/cuda/cuda_context.hpp"
#include "caffe/device/cuda/cuda_driver.hpp"
#include "caffe/device/cuda/cuda_stream.hpp"
#include "caffe/device/device.hpp"

namespace caffe {

// One NVIDIA GPU through the driver API and NVRTC. Every call leaves the GPU's primary context
// current on the calling thread; native_stream() too, so that cuBLAS and cuDNN can be called after
// it. Memory handles are device addresses. Throws with "cuda:N" and the name of the driver's call.
class CudaDevice final : public Device {
 public:
  // `target` is NVRTC's target: "sm_90", or "compute_80" for PTX.
  CudaDevice(cuda::CUdevice device, DeviceInfo info, std::string target);
  ~CudaDevice() override;

  Stream* default_stream() override;
  void* native_stream() override;
  bool can_capture() const override;
  // The bytes that the driver says are free.
  int64_t FreeBytes() const;

  // The key of this text's binary in the program cache.
  std::string ProgramKey(const ProgramText& text) const;

 protected:
  void* DoAllocate(int64_t bytes) override;
  void DoFree(void* handle) noexcept override;
  void DoUpload(DevicePtr target, const void* source, int64_t bytes) override;
  void DoDownload(void* target, DevicePtr source, int64_t bytes) override;
  void DoCopy(DevicePtr target, DevicePtr source, int64_t bytes) override;
  void DoFill(DevicePtr target, uint8_t byte, int64_t bytes) override;
  std::unique_ptr<Stream> DoCreateStream() override;
  Stream* DoBeginCapture() override;
  std::unique_ptr<Graph> DoEndCapture(bool keep) override;
  bool DoOrderAfter(std::span<const int> pieces) override;
  std::shared_ptr<Program> DoBuild(const ProgramText& text, bool use_cache) override;

 private:
  // A node of the graph that is recorded, and what waiting for it means.
  struct Dependency {
    cuda::CUgraphNode node;
    cuda::CUgraphEdgeData edge;
    bool operator==(const Dependency&) const = default;
  };
  using Dependencies = std::vector<Dependency>;

  cuda::CudaStream& stream();
  Dependencies CaptureDependencies() const;

  std::shared_ptr<cuda::CudaContext> context_;
  std::mutex default_stream_mutex_;
  std::atomic<cuda::CudaStream*> default_stream_{nullptr};
  std::unique_ptr<cuda::CudaStream> made_default_stream_;  // created at the first use
  // That of captures. It never runs work, so no buffer's use is ordered after it.
  std::unique_ptr<cuda::CudaStream> capture_stream_;
  bool recorded_any_ = false;
  std::vector<Dependencies> ends_;  // the last nodes of each piece of recorded work but the newest
  Dependencies newest_after_;       // that of the newest piece
  std::string target_;
};

}  // namespace caffe

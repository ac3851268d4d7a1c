#pragma once

#include <memory>
#include <string>

#include "caffe/device/cuda/cuda_context.hpp"
#include "caffe/device/cuda/cuda_staging.hpp"
#include "caffe/device/device.hpp"

namespace caffe {

// One NVIDIA GPU through the driver API and NVRTC. Every call leaves the GPU's primary context
// current on the calling thread; native_stream() too, so that cuBLAS and cuDNN can be called after
// it. Memory handles are device addresses. Throws with "cuda:N" and the name of the driver's call.
class CudaDevice final : public Device {
 public:
  // `target` is what NVRTC compiles for: "sm_90", or "compute_80" for PTX.
  CudaDevice(cuda::CUdevice device, DeviceInfo info, std::string target);
  ~CudaDevice() override;

  std::unique_ptr<Event> RecordEvent() override;
  std::unique_ptr<Stream> CreateStream() override;
  void UseStream(Stream* stream) override;
  void* native_stream() override;

  // Under which key the program cache holds this text's binary.
  std::string ProgramKey(const ProgramText& text) const;

 protected:
  void* DoAllocate(int64_t bytes) override;
  void DoFree(void* handle) noexcept override;
  void DoUpload(DevicePtr target, const void* source, int64_t bytes) override;
  void DoDownload(void* target, DevicePtr source, int64_t bytes) override;
  void DoCopy(DevicePtr target, DevicePtr source, int64_t bytes) override;
  void DoFill(DevicePtr target, uint8_t byte, int64_t bytes) override;
  void DoSynchronize() override;
  std::shared_ptr<Program> DoBuild(const ProgramText& text, bool use_cache) override;

 private:
  std::shared_ptr<cuda::CudaContext> context_;
  std::unique_ptr<cuda::CudaStaging> staging_;
  std::string target_;
};

}  // namespace caffe

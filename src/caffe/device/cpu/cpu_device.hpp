#pragma once

#include <memory>
#include <string>
#include <vector>

#include "caffe/device/device.hpp"
#include "caffe/device/host_level.hpp"

namespace caffe {

// The processor as a device: memory is the host's, kernels were compiled into the library once per
// instruction level, and every launch is split statically over the OpenMP threads.
class CpuDevice final : public Device {
 public:
  CpuDevice();
  ~CpuDevice() override;
  Stream* default_stream() override { return default_stream_.get(); }

 protected:
  void* DoAllocate(int64_t bytes) override;
  void DoFree(void* handle) noexcept override;
  void DoUpload(DevicePtr target, const void* source, int64_t bytes) override;
  void DoDownload(void* target, DevicePtr source, int64_t bytes) override;
  void DoCopy(DevicePtr target, DevicePtr source, int64_t bytes) override;
  void DoFill(DevicePtr target, uint8_t byte, int64_t bytes) override;
  std::unique_ptr<Stream> DoCreateStream() override;
  std::shared_ptr<Program> DoBuild(const ProgramText& text, bool use_cache) override;

 private:
  const std::unique_ptr<Stream> default_stream_;
};

}  // namespace caffe

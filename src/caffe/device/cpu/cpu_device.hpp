#pragma once

#include <memory>
#include <string>
#include <vector>

#include "caffe/device/device.hpp"

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

// The instruction level in use: the highest one that the processor has and the library was built
// for, or that of CAFFE_CPU_LEVEL. Throws on an unknown level and on one that the processor lacks.
const std::string& HostLevel();
// The same as a number, for choices in every call.
enum class InstructionLevel { kV2, kV3, kV4, kNeon };
InstructionLevel HostLevelNumber();
// All levels that the library was built for and this processor can run, lowest first.
std::vector<std::string> HostLevels();
// Sets the level of programs that are built from now on; for tests that compare levels.
void SetHostLevel(const std::string& level);

}  // namespace caffe

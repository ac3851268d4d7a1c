#pragma once

#include <memory>
#include <string>
#include <vector>

#include "caffe/device/device.hpp"

namespace caffe {

// A device that runs nothing: its memory is host memory that copies move, its programs keep their
// text, and its launches and the waits between its streams only count. `text_for`, "cuda" or
// "opencl", is the backend whose dialect the texts have, so that they can be inspected and compiled
// on a machine without such a device.
class NullDevice : public Device {
 public:
  explicit NullDevice(const std::string& text_for = "opencl");
  ~NullDevice() override;
  Stream* default_stream() override { return default_stream_.get(); }
  // Texts of all programs that were built, in order.
  const std::vector<ProgramText>& texts() const { return texts_; }

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
  std::vector<ProgramText> texts_;
};

}  // namespace caffe

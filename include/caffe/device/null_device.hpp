#pragma once

#include <memory>
#include <string>
#include <vector>

#include "caffe/device/device.hpp"

namespace caffe {

// A device that runs nothing: its memory is host memory that copies move, its programs keep their
// text and its launches only count. `text_for` says for which backend the text is made, kCuda or
// kOpenCl, so that program texts can be seen and compiled where no such device is.
class NullDevice final : public Device {
 public:
  explicit NullDevice(Backend text_for = Backend::kOpenCl);
  ~NullDevice() override;
  std::unique_ptr<Event> RecordEvent() override;
  std::unique_ptr<Stream> CreateStream() override;
  void UseStream(Stream*) override {}
  void* native_stream() override { return nullptr; }
  // Texts of all programs that were built, in order.
  const std::vector<ProgramText>& texts() const { return texts_; }

 protected:
  void* DoAllocate(int64_t bytes) override;
  void DoFree(void* handle) noexcept override;
  void DoUpload(DevicePtr target, const void* source, int64_t bytes) override;
  void DoDownload(void* target, DevicePtr source, int64_t bytes) override;
  void DoCopy(DevicePtr target, DevicePtr source, int64_t bytes) override;
  void DoFill(DevicePtr target, uint8_t byte, int64_t bytes) override;
  void DoSynchronize() override {}
  std::shared_ptr<Program> DoBuild(const ProgramText& text, bool use_cache) override;

 private:
  std::vector<ProgramText> texts_;
};

}  // namespace caffe

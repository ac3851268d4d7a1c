#include "caffe/memory/workspace.hpp"

#include "caffe/core/error.hpp"

namespace caffe {

Workspace::Workspace(Device* device, std::string purpose)
    : device_(device), purpose_(std::move(purpose)) {}

DevicePtr Workspace::Need(int64_t bytes) {
  CAFFE_CHECK(bytes >= 0, purpose_, ": a need of ", bytes, " bytes is negative");
  if (bytes == 0) return {};
  if (bytes > this->bytes()) {
    buffer_.reset();  // first, so that the two buffers never exist at the same time
    buffer_ = std::make_unique<DeviceBuffer>(device_, bytes, purpose_);
  }
  return buffer_->pointer();
}

void Workspace::SetDevice(Device* device) {
  if (device == device_) return;
  buffer_.reset();
  device_ = device;
}

}  // namespace caffe

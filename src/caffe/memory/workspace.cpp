#include "caffe/memory/workspace.hpp"

#include <algorithm>

#include "caffe/core/error.hpp"
#include "caffe/device/available_memory.hpp"
#include "caffe/device/graph.hpp"

namespace caffe {
namespace {

constexpr int64_t kAlignment = 256;  // bytes, as of buffers

}  // namespace

Workspace::Workspace(Device* device, std::string purpose)
    : device_(device), purpose_(std::move(purpose)) {}

DevicePtr Workspace::Need(int64_t bytes) {
  CAFFE_CHECK(bytes >= 0, purpose_, ": a need of ", bytes, " bytes is negative");
  if (bytes == 0) return {};
  if (bytes > this->bytes()) {
    buffer_.reset();  // first, so that the two buffers never exist at the same time
    // Needs are stated while a net is made, before its forecast.
    CheckAvailableMemory(*device_, bytes, purpose_);
    buffer_ = std::make_unique<DeviceBuffer>(device_, bytes, purpose_);
  }
  if (!Recording()) return buffer_->pointer();
  if (place_ + bytes > this->bytes()) place_ = 0;
  used_ = std::max(used_, bytes);
  const DevicePtr pointer = buffer_->pointer() + place_;
  Capture::NoteExtent(device_, pointer, bytes);
  return pointer;
}

bool Workspace::Recording() const {
  return device_->tracks_use() && Capture::Of(device_) &&
         GraphModeOfEnvironment() == GraphMode::kBranches;
}

void Workspace::Next() {
  const int64_t end = place_ + used_;
  place_ = Recording() ? (end + kAlignment - 1) / kAlignment * kAlignment : 0;
  used_ = 0;
}

void Workspace::SetDevice(Device* device) {
  if (device == device_) return;
  buffer_.reset();
  device_ = device;
}

}  // namespace caffe

#include "caffe/memory/synced_memory.hpp"

#include <atomic>
#include <cstring>
#include <new>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

constexpr std::align_val_t kHostAlignment{256};

// One counter for all memories: no two of them ever have the same version, unless neither was
// written. So an equal version means an equal content, also where a blob got another memory.
uint64_t NextVersion() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

SyncedMemory::SyncedMemory(int64_t bytes, Device* device, std::string purpose)
    : bytes_(bytes), device_(device), purpose_(std::move(purpose)) {
  CAFFE_CHECK(bytes >= 0, purpose_, ": a size of ", bytes, " bytes");
}

SyncedMemory::~SyncedMemory() {
  if (!shared()) device_->Free(device_memory_);
}

void SyncedMemory::NeedHost() {
  if (host_) return;
  if (shared()) {
    // Freed when the last view goes, which may be after this object.
    Device* device = device_;
    const DevicePtr memory = device->Allocate(bytes_, purpose_);
    host_ =
        std::shared_ptr<char>(memory.address(), [device, memory](char*) { device->Free(memory); });
    device_memory_ = memory;
  } else {
    char* memory = static_cast<char*>(::operator new(bytes_, kHostAlignment, std::nothrow));
    CAFFE_CHECK(memory, purpose_, ": out of host memory, ", bytes_, " bytes were asked for");
    host_ = std::shared_ptr<char>(memory, [](char* p) { ::operator delete(p, kHostAlignment); });
  }
}

void SyncedMemory::NeedDevice() {
  if (shared()) {
    NeedHost();
  } else if (!device_memory_) {
    device_memory_ = device_->Allocate(bytes_, purpose_);
  }
}

void SyncedMemory::ToHost() {
  NeedHost();
  if (head_ == Head::kEmpty) {
    std::memset(host_.get(), 0, bytes_);
    head_ = Head::kHost;
  } else if (head_ == Head::kDevice) {
    if (!shared()) device_->Download(host_.get(), device_memory_, bytes_);
    head_ = Head::kSynced;
  }
}

void SyncedMemory::ToDevice() {
  NeedDevice();
  if (head_ == Head::kEmpty) {
    device_->Fill(device_memory_, 0, bytes_);
    head_ = Head::kDevice;
  } else if (head_ == Head::kHost) {
    if (!shared()) device_->Upload(device_memory_, host_.get(), bytes_);
    head_ = Head::kSynced;
  }
}

const void* SyncedMemory::host_data() {
  ToHost();
  return host_.get();
}

void* SyncedMemory::mutable_host_data() {
  ToHost();
  head_ = Head::kHost;
  version_ = NextVersion();
  return host_.get();
}

DevicePtr SyncedMemory::device_data() {
  ToDevice();
  return device_memory_;
}

DevicePtr SyncedMemory::mutable_device_data() {
  ToDevice();
  head_ = Head::kDevice;
  version_ = NextVersion();
  return device_memory_;
}

void SyncedMemory::SetDevice(Device* device) {
  if (device == device_) return;
  const bool filled = head_ != Head::kEmpty;
  if (filled) ToHost();
  if (!shared()) device_->Free(device_memory_);
  device_memory_ = {};
  device_ = device;
  if (!filled) {
    host_.reset();
    return;
  }
  // The host's copy stays the same memory, so that views of it stay live.
  if (shared()) device_memory_ = {host_.get(), 0};
  head_ = Head::kHost;
}

std::shared_ptr<void> SyncedMemory::View() {
  mutable_host_data();
  return host_;
}

void SyncedMemory::ForgetHostWrites() {
  if (head_ == Head::kHost && !shared() && device_memory_) head_ = Head::kSynced;
}

void SyncedMemory::MarkHostWritten() {
  ToHost();
  head_ = Head::kHost;
  version_ = NextVersion();
}

}  // namespace caffe

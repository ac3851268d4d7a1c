#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "caffe/device/device.hpp"

namespace caffe {

// One array with a copy on the host and one on a device; it knows which is current and copies when
// the other is asked for. On the CPU device both are the same memory. Fresh memory reads as zeros.
// Used by one thread at a time.
class SyncedMemory {
 public:
  // `purpose` names it in messages, for example "blob conv1". No memory is taken before first use.
  SyncedMemory(int64_t bytes, Device* device, std::string purpose);
  ~SyncedMemory();
  SyncedMemory(const SyncedMemory&) = delete;
  SyncedMemory& operator=(const SyncedMemory&) = delete;

  int64_t bytes() const { return bytes_; }
  Device* device() const { return device_; }

  const void* host_data();
  void* mutable_host_data();
  DevicePtr device_data();
  DevicePtr mutable_device_data();

  // Raised by every mutable access, from one counter of all memories: DataStamp compares it.
  uint64_t version() const { return version_; }
  // Moves to another device; the content travels through the host.
  void SetDevice(Device* device);

  // A share in the host memory for a view (a NumPy array) that may outlive this object. Counts as
  // written: the view may be gone before anybody can ask what was written through it.
  std::shared_ptr<void> View();
  // True while a view is alive. Before a forward its memory counts as written on the host.
  bool has_view() const { return host_.use_count() > 1; }
  // Counts the host copy as just written, whatever was written through a view.
  void MarkHostWritten();
  // Saves the upload of what was written on the host, because a launch is to overwrite all of it.
  void ForgetHostWrites();

 private:
  enum class Head { kEmpty, kHost, kDevice, kSynced };
  void NeedHost();
  void NeedDevice();
  void ToHost();
  void ToDevice();
  bool shared() const { return device_->host_accessible(); }

  int64_t bytes_;
  Device* device_;
  std::string purpose_;
  Head head_ = Head::kEmpty;
  std::shared_ptr<char> host_;
  DevicePtr device_memory_;
  uint64_t version_ = 0;
};

}  // namespace caffe

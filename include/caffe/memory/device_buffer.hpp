#pragma once

#include <cstdint>
#include <string>

#include "caffe/device/device.hpp"

namespace caffe {

// One allocation on a device, freed by the destructor. Memories (SyncedMemory) are slices of
// buffers and share them.
class DeviceBuffer {
 public:
  // Allocates. `purpose` names the buffer in messages. Throws OutOfMemory.
  DeviceBuffer(Device* device, int64_t bytes, std::string purpose);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  Device* device() const { return device_; }
  int64_t bytes() const { return bytes_; }
  DevicePtr pointer() const { return pointer_; }
  const std::string& purpose() const { return purpose_; }

 private:
  Device* device_;
  int64_t bytes_;
  std::string purpose_;
  DevicePtr pointer_;
};

}  // namespace caffe

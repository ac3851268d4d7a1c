#pragma once

#include <string_view>
#include <utility>

#include "caffe/device/device.hpp"

namespace caffe {

// The start of a pointer's buffer. It is aligned for every type, so it can be passed for an
// argument of another type that the kernel does not read.
inline DevicePtr BufferOf(DevicePtr pointer) {
  return {pointer.handle, 0, pointer.read_only, true, true};
}

// Device memory that its owner frees; empty for 0 bytes.
class DeviceArray {
 public:
  DeviceArray() = default;
  DeviceArray(Device* device, int64_t bytes, std::string_view purpose)
      : device_(device), bytes_(bytes) {
    if (bytes > 0) pointer_ = device->Allocate(bytes, purpose);
  }
  DeviceArray(DeviceArray&& other) noexcept { *this = std::move(other); }
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(bytes_, other.bytes_);
    std::swap(pointer_, other.pointer_);
    return *this;
  }
  ~DeviceArray() {
    if (pointer_) device_->Free(pointer_);
  }
  DevicePtr get() const { return pointer_; }
  // The same as an array of this type, with the scale 1.
  DevicePtr Of(DataType type) const {
    DevicePtr pointer = pointer_;
    pointer.scaled = type.is_scaled();
    pointer.packed = type.is_packed();
    return pointer;
  }
  int64_t bytes() const { return bytes_; }

 private:
  Device* device_ = nullptr;
  int64_t bytes_ = 0;
  DevicePtr pointer_;
};

}  // namespace caffe

#pragma once

#include <cstdint>

namespace caffe {

// A place in device memory: a buffer and a byte offset. On the CPU and on CUDA `handle` is the
// buffer's address, on OpenCL its memory object. Trivially copyable; owns nothing.
struct DevicePtr {
  void* handle = nullptr;
  int64_t offset = 0;

  DevicePtr operator+(int64_t bytes) const { return {handle, offset + bytes}; }
  explicit operator bool() const { return handle != nullptr; }
  // The address, where device memory has addresses (CPU, CUDA).
  char* address() const { return static_cast<char*>(handle) + offset; }
  friend bool operator==(const DevicePtr&, const DevicePtr&) = default;
};

// The same with an element type: arithmetic counts elements.
template <class T> struct vptr {
  DevicePtr base;
  vptr() = default;
  explicit vptr(DevicePtr pointer) : base(pointer) {}
  vptr operator+(int64_t elements) const {
    return vptr(base + elements * static_cast<int64_t>(sizeof(T)));
  }
  operator DevicePtr() const { return base; }
};

}  // namespace caffe

#pragma once

#include <cstdint>

namespace caffe {

// An address in device memory: a buffer and a byte offset. On the CPU and on CUDA `handle` is the
// buffer's address, on OpenCL its memory object. Trivially copyable; owns nothing.
struct DevicePtr {
  void* handle = nullptr;
  int64_t offset = 0;
  // True for pointers from device_data(): kernels and copies refuse to write through them, because
  // the owner would not notice that its copy on the host is out of date. Derived pointers inherit
  // it.
  bool read_only = false;

  DevicePtr operator+(int64_t bytes) const { return {handle, offset + bytes, read_only}; }
  DevicePtr ReadOnly() const { return {handle, offset, true}; }
  explicit operator bool() const { return handle != nullptr; }
  // The address, for devices whose memory has addresses (CPU, CUDA).
  char* address() const { return static_cast<char*>(handle) + offset; }
  // Throws if the pointer is read-only. For code that writes other than through Kernel and Device.
  void CheckWritable() const {
    if (read_only) [[unlikely]] {
      RefuseToWrite();
    }
  }
  // The address for writing; throws if the pointer is read-only.
  char* writable_address() const {
    CheckWritable();
    return address();
  }
  // True if both are the same address; read_only is not compared.
  friend bool operator==(const DevicePtr& a, const DevicePtr& b) {
    return a.handle == b.handle && a.offset == b.offset;
  }

 private:
  [[noreturn]] static void RefuseToWrite();
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

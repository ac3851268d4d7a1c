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
  // For codes of a type with TypeInfo::scaled: LOAD returns 2^exponent times the value of a code,
  // and STORE divides by it. Kernels refuse such codes if `scaled` is false. Derived pointers
  // inherit both.
  bool scaled = false;
  // Two elements of one byte each lie in a byte (TypeInfo::packed). operator+ counts elements, and
  // throws for an odd number. Kernels refuse such an array if it is false; derived pointers inherit
  // it.
  bool packed = false;
  int16_t exponent = 0;

  DevicePtr operator+(int64_t bytes) const {
    DevicePtr moved = *this;
    if (packed) [[unlikely]] {
      if (bytes % 2 != 0) RefuseOddElement(bytes);
      bytes /= 2;
    }
    moved.offset += bytes;
    return moved;
  }
  DevicePtr ReadOnly() const {
    DevicePtr pointer = *this;
    pointer.read_only = true;
    return pointer;
  }
  // The same address for elements of the type of another pointer: with its scale, packed as they
  // are.
  DevicePtr As(const DevicePtr& other) const {
    DevicePtr pointer = *this;
    pointer.scaled = other.scaled;
    pointer.packed = other.packed;
    pointer.exponent = other.exponent;
    return pointer;
  }
  // The same address, for copies of bytes.
  DevicePtr AsBytes() const { return {handle, offset, read_only}; }
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
  // True if both are the same address; nothing else is compared.
  friend bool operator==(const DevicePtr& a, const DevicePtr& b) {
    return a.handle == b.handle && a.offset == b.offset;
  }

 private:
  [[noreturn]] static void RefuseToWrite();
  [[noreturn]] static void RefuseOddElement(int64_t element);
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

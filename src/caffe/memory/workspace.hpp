#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "caffe/memory/device_buffer.hpp"

namespace caffe {

// Scratch memory that computations on one stream of a device use in turn. It is as large as the
// largest need so far. Its content is undefined when a computation starts.
//
// A need is stated where it becomes known, when shapes or plans change; then Need returns a pointer
// inside a forward without allocating.
//
// With CAFFE_GRAPHS=branches, computations of a record (Capture) that need little lie one after the
// other in the workspace, so that they can run at the same time.
class Workspace {
 public:
  // Allocates nothing. `purpose` names the memory in messages.
  explicit Workspace(Device* device, std::string purpose = "workspace");

  Device* device() const { return device_; }
  // Bytes that are allocated.
  int64_t bytes() const { return buffer_ ? buffer_->bytes() : 0; }
  // At least `bytes` bytes; a null pointer for 0. If the workspace has to grow, the smaller buffer
  // is freed first: pointers from earlier calls are then invalid. Throws OutOfMemory, after which
  // the workspace is empty and smaller needs can still be met.
  DevicePtr Need(int64_t bytes);
  // The computations that follow read nothing that earlier ones have written to the workspace.
  // Until the next call Need returns the same place, unless it does not suffice.
  void Next();
  // Frees the memory and uses the other device from now on.
  void SetDevice(Device* device);
  // Frees the memory.
  void Release() { buffer_.reset(); }

 private:
  bool Recording() const;

  Device* device_;
  std::string purpose_;
  std::unique_ptr<DeviceBuffer> buffer_;
  int64_t place_ = 0, used_ = 0;  // in such a record: of the current computation, in bytes
};

}  // namespace caffe

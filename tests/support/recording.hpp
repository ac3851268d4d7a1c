#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/devices.hpp"
#include "support/keeping_device.hpp"
#include "support/scoped_variable.hpp"

namespace caffe {

// How work for a device is recorded: by the device, or by one that keeps calls on it.
struct RecordedOn {
  Device* device;
  bool keeps;

  std::string name() const {
    std::string name = device->info().id + (keeps ? "_keeps" : "");
    for (char& c : name) c = c == ':' ? '_' : c;
    return name;
  }
};

// A device that can record. Branches are tried where they are correct: not on CUDA.
class Recording {
 public:
  explicit Recording(RecordedOn on) : device_(on.device) {
    if (on.keeps) {
      keeping_ = std::make_unique<KeepingDevice>(on.device);
      device_ = keeping_.get();
    }
    if (device_->backend() != "cuda") branches_.emplace("CAFFE_GRAPHS", "branches");
    // Calls of a library are not recorded on OpenCL.
    if (device_->backend() == "opencl") own_kernels_.emplace("CAFFE_LIBRARY", "gemm=generated");
  }
  Device* device() { return device_; }
  KeepingDevice* keeping() { return keeping_.get(); }  // null if the device itself records

 private:
  std::optional<ScopedVariable> branches_, own_kernels_;
  std::unique_ptr<KeepingDevice> keeping_;
  Device* device_;
};

inline std::vector<RecordedOn> RecordingDevices() {
  std::vector<RecordedOn> all;
  for (Device* device : TestDevices()) {
    if (device->can_capture()) all.push_back({device, false});
    // OpenCL's matrix products on GPUs are calls of a library.
    if (CompilesSlowly(*device)) all.push_back({device, true});
  }
  return all;
}

}  // namespace caffe

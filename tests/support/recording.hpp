#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/devices.hpp"
#include "support/keeping_device.hpp"
#include "support/scoped_variable.hpp"

namespace caffe {

// A device that can record: the given one, or one that keeps calls on it and records branches.
class Recording {
 public:
  explicit Recording(Device* device) {
    if (!device->can_capture()) {
      keeping_ = std::make_unique<KeepingDevice>(device);
      branches_.emplace("CAFFE_GRAPHS", "branches");
    }
    device_ = keeping_ ? keeping_.get() : device;
  }
  Device* device() { return device_; }
  KeepingDevice* keeping() { return keeping_.get(); }  // null if the device itself records

 private:
  std::optional<ScopedVariable> branches_;
  std::unique_ptr<KeepingDevice> keeping_;
  Device* device_;
};

// Those for which there is a Recording.
inline std::vector<Device*> RecordingDevices() {
  std::vector<Device*> all;
  for (Device* device : TestDevices()) {
    // OpenCL's matrix products on GPUs are calls of a library.
    if (CompilesSlowly(*device) || device->can_capture()) all.push_back(device);
  }
  return all;
}

inline std::string DeviceName(const Device& device) {
  std::string name = device.info().id;
  for (char& c : name) c = c == ':' ? '_' : c;
  return name;
}

}  // namespace caffe

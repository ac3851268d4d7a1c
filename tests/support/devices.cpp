#include "support/devices.hpp"

#include <cstdlib>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"

namespace caffe {

const std::vector<Device*>& TestDevices() {
  static const auto* const devices = [] {
    auto* all = new std::vector<Device*>{Runtime::Get().cpu()};
    for (Device* device : Runtime::Get().devices()) all->push_back(device);
    return all;
  }();
  return *devices;
}

std::vector<DeviceType> DevicesAndTypes(const std::vector<DataType>& types) {
  std::vector<DeviceType> all;
  for (Device* device : TestDevices()) {
    for (DataType type : types) {
      if (type != kDouble || device->info().fp64) all.push_back({device, type});
    }
  }
  return all;
}

bool CompilesSlowly(const Device& device) {
  return device.info().is_cpu_type && !device.host_accessible();
}

bool IsTested(const Device& device, DataType type) {
  static const bool every = std::getenv("CAFFE_TEST_EVERY_TYPE") != nullptr;
  return every || !CompilesSlowly(device) || (type != kDouble && type != kBfloat16);
}

std::vector<DeviceType> DevicesAndFloats() {
  std::vector<DeviceType> all = DevicesAndTypes(FloatTypes());
  std::erase_if(all, [](const DeviceType& on) { return !IsTested(*on.device, on.type); });
  return all;
}

std::vector<DeviceType> DevicesAndFloatsOfNets() {
  std::vector<DeviceType> all = DevicesAndFloats();
  std::erase_if(all, [](const DeviceType& on) {
    return on.type != kFloat && !IsTested(*on.device, kDouble);
  });
  return all;
}

std::string TestName(const DeviceType& value) {
  std::string name = value.device->info().id + "_" + value.type.name();
  for (char& c : name) {
    if (c == ':') c = '_';
  }
  return name;
}

double Tolerance(DataType type) {
  if (type == kDouble) return 1e-12;
  if (type == kFloat) return 2e-5;
  if (type == kHalf) return 4e-3;
  if (type == kBfloat16) return 3e-2;
  CAFFE_THROW("integers are compared for equality, not within a tolerance");
}

}  // namespace caffe

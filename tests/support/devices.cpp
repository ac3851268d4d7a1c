#include "support/devices.hpp"

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

#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "caffe/core/data_type.hpp"
#include "caffe/device/device.hpp"

namespace caffe {

// The CPU and every device of this machine, in the order of their numbers.
const std::vector<Device*>& TestDevices();

// One place of a fan-out: a device and a type it can hold.
struct DeviceType {
  Device* device;
  DataType type;
};
inline void PrintTo(const DeviceType& value, std::ostream* out) {
  *out << value.device->info().id << " " << value.type.name();
}

// An OpenCL device that is a processor, such as PoCL: it takes a second or more for a program.
bool CompilesSlowly(const Device& device);

// Every device with every one of these types; double only where the device has it.
std::vector<DeviceType> DevicesAndTypes(const std::vector<DataType>& types);
// Every device with the float kinds: all of them, but float and half where CompilesSlowly. A kernel
// differs between float kinds only in LOAD and STORE, which ConversionTest runs in every kind on
// every device, and EveryBodyOnOpenCl builds every kernel in every kind. CAFFE_TEST_EVERY_TYPE=1
// runs all kinds everywhere.
std::vector<DeviceType> DevicesAndFloats();
// The same for tests of nets, whose kernels the tests of layers run in other types: float alone
// where CompilesSlowly.
std::vector<DeviceType> DevicesAndFloatsOfNets();
// Whether DevicesAndFloats has this type on the device.
bool IsTested(const Device& device, DataType type);

// "cpu_half", "opencl_0_float": a name for a parameterised test.
std::string TestName(const DeviceType& value);

// How far results of this type may lie from those of a reference in double, relative to values
// around 1.
double Tolerance(DataType type);

}  // namespace caffe

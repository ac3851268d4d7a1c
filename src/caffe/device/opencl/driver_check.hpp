#pragma once

#include <string>

#include "caffe/device/opencl/opencl_device.hpp"

namespace caffe::opencl {

// Warns once per process and device if its driver is known to be faulty, or if it fails the probe:
// one kernel whose results the host knows, of idioms that drivers got wrong. The probe runs at the
// first use of a driver; its result is kept in the program cache. Throws nothing.
void CheckDriver(OpenClDevice* device) noexcept;

// The faults of a driver that is known to have some; empty for others.
std::string KnownFault(const std::string& platform, const std::string& driver);

}  // namespace caffe::opencl

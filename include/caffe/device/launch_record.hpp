#pragma once

#include <set>
#include <string>

#include "caffe/core/data_type.hpp"

namespace caffe {

// A kernel that was launched in certain types on a device.
struct LaunchedKernel {
  std::string device, kernel;
  TypeTriple types;
  auto operator<=>(const LaunchedKernel&) const = default;
};

// Starts recording which kernels are launched, for the test that every kernel is.
void RecordLaunches();
// The kernels launched since then.
std::set<LaunchedKernel> RecordedLaunches();

}  // namespace caffe

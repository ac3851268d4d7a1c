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

// Begins an empty record of the kernels that are launched.
void RecordLaunches();
// The kernels launched since the last RecordLaunches.
std::set<LaunchedKernel> RecordedLaunches();

}  // namespace caffe

#pragma once

#include <set>
#include <string>

#include "caffe/core/data_type.hpp"

namespace caffe {

// One kernel in one set of types on one device.
struct LaunchedKernel {
  std::string device, kernel;
  TypeTriple types;
  auto operator<=>(const LaunchedKernel&) const = default;
};

// From now on the process remembers which kernels are launched: for the test that every one is.
void RecordLaunches();
// What was launched since then.
std::set<LaunchedKernel> RecordedLaunches();

}  // namespace caffe

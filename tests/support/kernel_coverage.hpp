#pragma once

#include <string>

namespace caffe {

// Starts to note launches if the tests of this folder are to reach every kernel of some bodies.
void BeginKernelCoverage(const std::string& folder);

// After all tests of the folder have run: kernels of its bodies that were launched in no type on a
// device, or on no device in one of their types (those of operators: nowhere); a line each, empty if
// nothing is missing.
std::string MissingLaunches(const std::string& folder);

}  // namespace caffe

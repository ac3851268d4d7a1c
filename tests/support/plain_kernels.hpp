#pragma once

#include <cstdlib>

namespace caffe {

// Programs that PoCL builds during its lifetime are not optimized. LLVM then takes a third of the time
// for large kernels, and what the tests compute with them is small. Nets and layers are tested with
// optimized kernels.
class PlainKernels {
 public:
  PlainKernels() { setenv("POCL_EXTRA_BUILD_FLAGS", "-cl-opt-disable", 1); }
  ~PlainKernels() { unsetenv("POCL_EXTRA_BUILD_FLAGS"); }
  PlainKernels(const PlainKernels&) = delete;
  PlainKernels& operator=(const PlainKernels&) = delete;
};

}  // namespace caffe

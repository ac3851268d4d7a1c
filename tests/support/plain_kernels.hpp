#pragma once

#include "support/scoped_variable.hpp"

namespace caffe {

// Programs that PoCL builds during its lifetime are not optimized. LLVM then takes a third of the
// time for large kernels, and what the tests compute with them is small. Nets and layers are tested
// with optimized kernels.
class PlainKernels : ScopedVariable {
 public:
  PlainKernels() : ScopedVariable("POCL_EXTRA_BUILD_FLAGS", "-cl-opt-disable") {}
};

}  // namespace caffe

#pragma once

#include <cstdint>
#include <string>

namespace caffe {

// The bytes that a net holds on its device after a whole forward and, in phase TRAIN, with
// force_backward or requested gradients, after a backward. Shared memory counts once; workspaces
// are not included.
struct MemoryNeeds {
  int64_t data = 0, diffs = 0, parameters = 0, parameter_diffs = 0;
  int64_t total() const { return data + diffs + parameters + parameter_diffs; }
  std::string ToString() const;
};

}  // namespace caffe

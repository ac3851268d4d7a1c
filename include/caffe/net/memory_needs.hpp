#pragma once

#include <cstdint>
#include <string>

namespace caffe {

// The bytes that a net holds on its device, from shapes alone: in phase TEST after a whole forward;
// in phase TRAIN in an iteration of a solver; with force_backward or requested gradients after a
// backward. Shared memory counts once.
struct MemoryNeeds {
  int64_t data = 0, diffs = 0;  // of blobs, and of layers' own arrays of their size
  int64_t parameters = 0, parameter_diffs = 0;
  int64_t derived = 0;  // weights in the forms that operators take
  int64_t workspace = 0;
  int64_t total() const {
    return data + diffs + parameters + parameter_diffs + derived + workspace;
  }
  std::string ToString() const;
};

}  // namespace caffe

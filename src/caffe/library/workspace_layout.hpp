#pragma once

#include <cstdint>

#include "caffe/library/rounding.hpp"

namespace caffe {

// Arrays side by side in one workspace. Each begins at a multiple of 256 bytes, as libraries
// require.
class WorkspaceLayout {
 public:
  // Adds an array of this many bytes and returns its offset.
  int64_t Add(int64_t bytes) {
    const int64_t offset = bytes_;
    bytes_ += RoundUp(bytes, kAlignment);
    return offset;
  }
  int64_t bytes() const { return bytes_; }

 private:
  static constexpr int64_t kAlignment = 256;
  int64_t bytes_ = 0;
};

}  // namespace caffe

#pragma once

#include <cstdint>
#include <utility>

#include "caffe/library/onednn/problem.hpp"

namespace caffe::onednn {

// The code of a number in bfloat16, and whether it is exact.
std::pair<uint16_t, bool> Code(double value);

// Loops over an array in bfloat16, with all threads if it has many elements.
struct Codes {
  int64_t count = 0, row = 0;  // elements, and those of a row of channels

  // Clamps codes to [0, highest]. With a pitch, rows of x are copied to y, whose rows have this
  // distance; without one, y is clamped in place.
  void Clip(const void* x, void* y, int64_t pitch, uint16_t highest) const;
  void Copy(const void* from, void* to) const;
};

// A copy of x with its padding, in kNHWC.
void CopyPadded(const Problem& problem, const void* x, void* y);

}  // namespace caffe::onednn

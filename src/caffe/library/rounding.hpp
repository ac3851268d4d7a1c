#pragma once

#include <cstdint>

namespace caffe {

// The units that `value` begins, and the values of these; value >= 0.
constexpr int64_t Ceil(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }
constexpr int64_t RoundUp(int64_t value, int64_t unit) { return Ceil(value, unit) * unit; }

// The side of the largest square of items in a group of `items`, as in kernels/math/group_side.h.
constexpr int64_t GroupSide(int64_t items) {
  int64_t side = 16;
  while (side > 1 && side * side > items) side /= 2;
  return side;
}

}  // namespace caffe

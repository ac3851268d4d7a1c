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

// Division of n in [0, 2^31) by `divisor` in [1, 2^31) as kernels do it (kernels/math/quotient.h):
// n * multiplier >> shift. It is exact, because multiplier * divisor exceeds 2^shift by less than
// 2^(shift - 31). (Granlund and Montgomery, Division by Invariant Integers using Multiplication.)
struct Quotient {
  explicit constexpr Quotient(int64_t divisor) {
    while ((int64_t{1} << (shift - 31)) < divisor) ++shift;
    multiplier = static_cast<int64_t>(
        ((uint64_t{1} << shift) + static_cast<uint64_t>(divisor) - 1) / divisor);
  }
  int64_t multiplier = 0;  // below 2^32
  int64_t shift = 31;
};

}  // namespace caffe

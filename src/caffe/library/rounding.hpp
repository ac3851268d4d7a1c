#pragma once

#include <cstdint>

namespace caffe {

// The units that `value` begins, and the values of these; value >= 0.
constexpr int64_t Ceil(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }
constexpr int64_t RoundUp(int64_t value, int64_t unit) { return Ceil(value, unit) * unit; }

}  // namespace caffe

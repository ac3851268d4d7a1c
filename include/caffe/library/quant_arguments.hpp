#pragma once

#include <cstdint>

#include "caffe/core/data_type.hpp"
#include "caffe/device/device_ptr.hpp"

namespace caffe {

// Sums of products of codes fit 32 bits up to this depth, with symmetric weights and a bias of at
// most 2^30 in units of the products. Longer ones, and all of quant16, are 64 bits wide.
inline constexpr int64_t kNarrowDepth = 1 << 15;

// The zero point of weights: their codes lie symmetrically around it, 1 … 255 or 1 … 65535.
inline int32_t WeightZero(DataType type) { return (type.info().code_max + 1) / 2; }

// What a quantized operator needs besides the codes of x and w. For channel c
//   y = clamp(activation(round((sum of x (w - WeightZero) + bias[c]) multiplier[c] / 2^shift[c])) +
//             zero_y)
// with one rounding, half away from zero (kernels/math/requantize.h). The zero point of x is no
// operand: the bias holds -zero_x times the sum of the channel's weights.
struct QuantArguments {
  DevicePtr bias;               // i64; its values fit i32 where the sums do
  DevicePtr multiplier, shift;  // i32
  int32_t zero_x = 0;           // what padding holds
  int32_t zero_y = 0;
};

}  // namespace caffe

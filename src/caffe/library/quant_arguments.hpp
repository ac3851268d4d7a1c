#pragma once

#include <cstdint>

#include "caffe/core/data_type.hpp"
#include "caffe/core/requant.hpp"
#include "caffe/device/device_ptr.hpp"
#include "caffe/library/epilogue.hpp"

namespace caffe {

// Up to this depth sums of products of codes fit 32 bits, with symmetric weights and a bias of at
// most 2^30 in units of the products. Longer sums, and all sums of quant16, have 64 bits.
inline constexpr int64_t kNarrowDepth = 1 << 15;

// The zero point of weights: their codes are symmetric around it, 1 … 255 or 1 … 65535.
inline int32_t WeightZero(DataType type) { return (type.info().code_max + 1) / 2; }

// The sum of an operator's codes and those of a residual, which repeats the codes of a separate sum
// and of a separate ReLU (Epilogue::sum). For a code q of the operator, whose zero point is zero_y
// of the QuantArguments, and a code r of the residual
//   s = clamp(round(((q - zero_y) own + (r - zero_residual) residual) / 2^shift) + zero_sum)
//   y = s, or with ReLU clamp(round(max(s - zero_sum, 0) rescale) + zero_result)
// Factors have one shift n, as in CommonShift.
struct CodeSum {
  int32_t own = 0, residual = 0, shift = 0;
  int32_t zero_residual = 0, zero_sum = 0;
  Requant rescale;
  int32_t zero_result = 0;

  // `coefficient`: of the residual.
  static CodeSum Make(const QuantRange& own, const QuantRange& residual, double coefficient,
                      const QuantRange& sum, const QuantRange& result);
};

// The operands of a quantized operator besides the codes of x and w. For channel c
//   v = sum of x (w - WeightZero) + bias[c]
//   y = clamp(bounds(round(v factor)) + zero_y), factor = multiplier[c] / 2^shift[c]
// with one rounding, half away from zero (kernels/math/requantize.h). Bounds are those of ReLU,
// ReLU6 and Clip, see CodeBounds. An activation with a slope below 0 (ReLU, ReLU6, PReLU) uses
// negative_multiplier[c] / 2^negative_shift[c] for v < 0; a negative multiplier means a negative
// slope. The zero point of x is not an operand: the bias includes -zero_x times the sum of the
// channel's weights.
struct QuantArguments {
  DevicePtr bias = {};  // i64; its values fit i32 if the sums do; null: the result is sums
  DevicePtr multiplier = {}, shift = {};  // i32
  int32_t zero_x = 0;                     // the code of padding
  int32_t zero_y = 0;
  double scale_y = 1;                                       // of the bounds
  DevicePtr negative_multiplier = {}, negative_shift = {};  // i32; null: no slope
  CodeSum sum = {};                                         // if the epilogue has a sum

  // The operands from a channel on.
  QuantArguments From(int64_t channel) const;
};

// The numbers with which sums of codes of x become float, if the range of x is known on the device
// alone. For channel c, with scale_x and zero_x of the device (kernels/quant/dynamic.h)
//   y = (sum of x (w - WeightZero) - zero_x weights[c]) (scale_x scale[c]) + bias[c]
struct SumArguments {
  DevicePtr scale, bias;  // f32
  DevicePtr weights;      // i32, the sums of w - WeightZero
};

// The lowest and highest value of an activation, as code - zero point: bounds / scale, rounded.
// Without a bound the value is beyond all codes.
struct CodeBounds {
  static constexpr int32_t kNone = 1 << 20;
  CodeBounds(const ElementFunction& activation, double scale);
  // The bounds of an operator's own codes; there are none if a sum follows.
  CodeBounds(const Epilogue& epilogue, double scale)
      : CodeBounds(epilogue.sum() ? ElementFunction() : epilogue.activation(), scale) {}
  int32_t low = -kNone, high = kNone;
};

}  // namespace caffe

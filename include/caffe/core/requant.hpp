#pragma once

#include <cstdint>

namespace caffe {

// A non-negative factor for integers: value * multiplier / 2^shift, with one rounding, half away
// from zero. multiplier is in [2^30, 2^31), or 0 for the factor 0. kernels/math/requantize.h
// applies it.
struct Requant {
  int32_t multiplier = 0;
  int32_t shift = 0;
  // The nearest such factor. Throws if `factor` is negative, infinite or NaN.
  static Requant FromReal(double factor);
  double real() const;
};

// The affine meaning of a quantized blob's codes, scale * (code - zero). Of a type with
// TypeInfo::scaled, values are scale * to_float(code), and scale is a power of two. Unobserved is a
// flag, not a range.
struct QuantRange {
  double scale = 1;
  int32_t zero = 0;
  bool observed = false;
};

}  // namespace caffe

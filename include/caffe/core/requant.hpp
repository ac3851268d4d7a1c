#pragma once

#include <cstdint>

namespace caffe {

// A positive factor for integers: value * multiplier / 2^shift, one rounding, half away from zero.
// multiplier lies in [2^30, 2^31), or is 0 for the factor 0. kernels/math/requantize.h computes it.
struct Requant {
  int32_t multiplier = 0;
  int32_t shift = 0;
  // The nearest such factor. Throws if it is negative, infinite or not a number.
  static Requant FromReal(double factor);
  double real() const;
};

// scale * (code - zero), what a quantized blob's codes mean. Unobserved is a flag, not a range.
struct QuantRange {
  double scale = 1;
  int32_t zero = 0;
  bool observed = false;
};

}  // namespace caffe

#pragma once

#include <cstdint>

namespace caffe {

// Factors and addends of one sum of codes as integers with one right shift n: a real f is
// round(f 2^n). The largest |f| is normalised: its integer is in [2^30, 2^31), unless n would be
// larger than 62. n < 0 means that every sum but 0 saturates.
struct CommonShift {
  int32_t shift = 0;
  // The shift for factors of at most this magnitude. Throws if `largest` is infinite or NaN.
  static CommonShift For(double largest);
  // Half away from zero.
  int64_t Integer(double factor) const;
};

}  // namespace caffe

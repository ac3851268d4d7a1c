#pragma once

#include <cstdint>

namespace caffe {

// Factors and addends of one sum of codes as integers with one right shift n: a real f is
// round(f 2^n). The largest |f| is normalised: its integer is in [2^30, 2^31). n is at most 62, and
// at least 0: larger factors saturate at 2^31 - 1.
struct CommonShift {
  int32_t shift = 0;
  // The shift for factors of at most this magnitude. Throws if `largest` is infinite or NaN.
  static CommonShift For(double largest);
  // In [-limit, limit].
  int64_t Integer(double factor, int64_t limit = 0x7fffffff) const;
};

}  // namespace caffe

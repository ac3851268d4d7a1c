#include "caffe/core/common_shift.hpp"

#include <algorithm>
#include <cmath>

#include "caffe/core/error.hpp"

namespace caffe {

CommonShift CommonShift::For(double largest) {
  CAFFE_CHECK(std::isfinite(largest) && largest >= 0,
              "the largest factor of a sum must be finite and not negative, got ", largest);
  if (largest == 0) return {0};
  int exponent;
  const double fraction = std::frexp(largest, &exponent);  // [0.5, 1) * 2^exponent
  if (std::llround(std::ldexp(fraction, 31)) == int64_t{1} << 31) ++exponent;
  return {std::min(31 - exponent, 62)};
}

int64_t CommonShift::Integer(double factor) const {
  return std::llround(std::ldexp(factor, shift));
}

}  // namespace caffe

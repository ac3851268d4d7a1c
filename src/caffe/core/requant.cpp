#include "caffe/core/requant.hpp"

#include <cmath>

#include "caffe/core/error.hpp"

namespace caffe {

Requant Requant::FromReal(double factor) {
  CAFFE_CHECK(std::isfinite(factor) && factor >= 0,
              "a requantization factor must be finite and not ", "negative, got ", factor);
  if (factor == 0) return {0, 0};
  int exponent;
  const double fraction = std::frexp(factor, &exponent);  // [0.5, 1) * 2^exponent
  int64_t multiplier = std::llround(std::ldexp(fraction, 31));
  if (multiplier == int64_t{1} << 31) {
    multiplier >>= 1;
    ++exponent;
  }
  return {static_cast<int32_t>(multiplier), 31 - exponent};
}

double Requant::real() const { return std::ldexp(static_cast<double>(multiplier), -shift); }

}  // namespace caffe

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "caffe/core/requant.hpp"

namespace caffe::test {

using Wide = __int128;

// The specification of requantization in 128-bit arithmetic: round half away from zero, saturate at
// +-(2^31 - 1); a sum of more than 32 bits with a shift of at most 32 saturates.
inline int64_t ExactRequantize(Wide v, const Requant& factor) {
  constexpr int64_t kLimit = 0x7fffffff;
  if (v == 0 || factor.multiplier == 0) return 0;
  const unsigned __int128 magnitude = v < 0 ? -v : v;
  int64_t result = kLimit;
  if (factor.shift >= 0 && !(magnitude >> 32 != 0 && factor.shift <= 32)) {
    const unsigned __int128 product = magnitude * static_cast<uint32_t>(factor.multiplier);
    unsigned __int128 rounded = 0;
    if (factor.shift < 128) {
      const unsigned __int128 half =
          factor.shift == 0 ? 0 : static_cast<unsigned __int128>(1) << (factor.shift - 1);
      rounded = (product + half) >> factor.shift;
    }
    result = static_cast<int64_t>(std::min<unsigned __int128>(rounded, kLimit));
  }
  return v < 0 ? -result : result;
}

// The code of a sum: requantized, ReLU or none, zero point, clamp.
inline int64_t ExactCode(Wide sum, const Requant& factor, bool relu, int64_t zero, int64_t most) {
  const int64_t v = ExactRequantize(sum, factor);
  return std::clamp<int64_t>((relu && v < 0 ? 0 : v) + zero, 0, most);
}

// The same with the factor of a slope for sums below 0, whose multiplier is negative where the
// slope is, and with bounds in units of the scale.
inline int64_t ExactCode(Wide sum, const Requant& factor, const Requant& negative, double low,
                         double high, int64_t zero, int64_t most) {
  int64_t v = ExactRequantize(sum, factor);
  if (sum < 0) {
    const Requant magnitude{std::abs(negative.multiplier), negative.shift};
    v = ExactRequantize(sum, magnitude) * (negative.multiplier < 0 ? -1 : 1);
  }
  // Halves away from zero, as all rounding.
  const int64_t from = std::llround(std::max(low, -1e9)), to = std::llround(std::min(high, 1e9));
  return std::clamp<int64_t>(std::clamp(v, from, to) + zero, 0, most);
}

}  // namespace caffe::test

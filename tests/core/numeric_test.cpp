#include "caffe/core/numeric.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace caffe {
namespace {

// A 16-bit format as IEEE 754 describes it, in double: nothing here looks at a float's bits.
struct Format {
  int exponent_bits, fraction_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int max_exponent() const { return (1 << exponent_bits) - 1; }

  double Value(uint16_t code) const {
    const int fraction = code & ((1 << fraction_bits) - 1);
    const int exponent = (code >> fraction_bits) & max_exponent();
    const double sign = code & 0x8000 ? -1.0 : 1.0;
    if (exponent == max_exponent()) {
      return fraction ? std::numeric_limits<double>::quiet_NaN()
                      : sign * std::numeric_limits<double>::infinity();
    }
    const double one = exponent ? 1.0 : 0.0;
    return sign *
           std::ldexp(one + std::ldexp(fraction, -fraction_bits), std::max(exponent, 1) - bias());
  }

  // The code of the nearest value, ties to the even code, by search among all of them.
  uint16_t Nearest(double value) const {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const double magnitude = std::abs(value);
    const int infinity = max_exponent() << fraction_bits;
    // Beyond the largest value the format is continued by one binade, as rounding has it.
    const auto at = [&](int code) {
      return code == infinity ? std::ldexp(1.0, max_exponent() - bias())
                              : Value(static_cast<uint16_t>(code));
    };
    int low = 0, high = infinity;
    if (magnitude >= at(high)) return static_cast<uint16_t>(sign | infinity);
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (at(middle) <= magnitude ? low : high) = middle;
    }
    const double below = magnitude - at(low), above = at(high) - magnitude;
    const bool up = above < below || (above == below && high % 2 == 0);
    return static_cast<uint16_t>(sign | (up ? high : low));
  }
};

constexpr Format kHalfFormat{5, 10};
constexpr Format kBfloat16Format{8, 7};

// Every value of the format, every point halfway between two, their neighbours among floats, and
// the same for negative numbers.
std::vector<float> Boundaries(const Format& format) {
  std::vector<float> values;
  const float inf = std::numeric_limits<float>::infinity();
  const int infinity = format.max_exponent() << format.fraction_bits;
  for (int code = 0; code < infinity; ++code) {
    const double low = format.Value(static_cast<uint16_t>(code));
    const double high = code + 1 < infinity
                            ? format.Value(static_cast<uint16_t>(code + 1))
                            : std::ldexp(1.0, format.max_exponent() - format.bias());
    for (double value : {low, (low + high) / 2}) {
      const float f = static_cast<float>(value);
      for (float x : {std::nextafter(f, -inf), f, std::nextafter(f, inf)}) {
        values.push_back(x);
        values.push_back(-x);
      }
    }
  }
  for (float x : {inf, std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min(),
                  std::numeric_limits<float>::min()}) {
    values.push_back(x);
    values.push_back(-x);
  }
  return values;
}

TEST(NumericTest, EveryHalfBecomesItsFloat) {
  for (int code = 0; code < 65536; ++code) {
    const double expected = kHalfFormat.Value(static_cast<uint16_t>(code));
    const float actual = HalfBitsToFloat(static_cast<uint16_t>(code));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(actual)) << code;
    } else {
      ASSERT_EQ(actual, expected) << code;
      ASSERT_EQ(std::signbit(actual), std::signbit(expected)) << code;
      ASSERT_EQ(FloatToHalfBits(actual), code);
    }
  }
}

TEST(NumericTest, EveryBfloat16BecomesItsFloat) {
  for (int code = 0; code < 65536; ++code) {
    const double expected = kBfloat16Format.Value(static_cast<uint16_t>(code));
    const float actual = Bfloat16BitsToFloat(static_cast<uint16_t>(code));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(actual)) << code;
    } else {
      ASSERT_EQ(actual, expected) << code;
      ASSERT_EQ(std::signbit(actual), std::signbit(expected)) << code;
      ASSERT_EQ(FloatToBfloat16Bits(actual), code);
    }
  }
}

TEST(NumericTest, FloatsRoundToTheNearestHalf) {
  for (float x : Boundaries(kHalfFormat)) {
    ASSERT_EQ(FloatToHalfBits(x), kHalfFormat.Nearest(x)) << std::hexfloat << x;
  }
}

TEST(NumericTest, FloatsRoundToTheNearestBfloat16) {
  for (float x : Boundaries(kBfloat16Format)) {
    ASSERT_EQ(FloatToBfloat16Bits(x), kBfloat16Format.Nearest(x)) << std::hexfloat << x;
  }
}

TEST(NumericTest, NaNStaysAQuietNaNOfItsSign) {
  for (uint32_t bits : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffc00001u}) {
    const float nan = std::bit_cast<float>(bits);
    const uint16_t sign = bits >> 31 ? 0x8000 : 0;
    const uint16_t half_bits = FloatToHalfBits(nan), bfloat16_bits = FloatToBfloat16Bits(nan);
    EXPECT_EQ(half_bits & 0xfe00, sign | 0x7e00) << std::hex << bits;
    EXPECT_EQ(bfloat16_bits & 0xffc0, sign | 0x7fc0) << std::hex << bits;
  }
  for (int code = 0x7c01; code < 0x7e00; ++code) {  // signalling ones become quiet
    const uint32_t bits = std::bit_cast<uint32_t>(HalfBitsToFloat(static_cast<uint16_t>(code)));
    ASSERT_EQ(bits & 0x7fc00000u, 0x7fc00000u) << code;
  }
}

#if defined(__x86_64__)
__attribute__((target("f16c"))) uint16_t ProcessorEncode(float x) { return _cvtss_sh(x, 0); }
__attribute__((target("f16c"))) float ProcessorDecode(uint16_t code) { return _cvtsh_ss(code); }

TEST(NumericTest, AgreesWithTheProcessorBitForBit) {
  // clang 14 does not know the name f16c; F16C comes with AVX2.
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "this processor has no F16C";
  for (int code = 0; code < 65536; ++code) {
    const auto bits = static_cast<uint16_t>(code);
    ASSERT_EQ(std::bit_cast<uint32_t>(HalfBitsToFloat(bits)),
              std::bit_cast<uint32_t>(ProcessorDecode(bits)))
        << code;
  }
  // A prime step through all floats, NaN included.
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 1021) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    ASSERT_EQ(FloatToHalfBits(x), ProcessorEncode(x)) << std::hex << bits;
  }
}
#endif

}  // namespace
}  // namespace caffe

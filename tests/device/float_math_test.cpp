#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace caffe {
namespace {

// The names that kernels/math/float.h takes from its surroundings; kernels of layers test it on
// devices.
using i32 = int32_t;
using u32 = uint32_t;
#define DEVICE_FN inline
DEVICE_FN float as_f32(u32 v) { return std::bit_cast<float>(v); }
DEVICE_FN u32 as_u32(float v) { return std::bit_cast<u32>(v); }
#include "../../kernels/math/float.h"

// |x^y - actual| in units of the last place; 0 where both are the same infinity, zero or no number.
double Units(float x, float y) {
  const double exact = std::pow(static_cast<double>(x), static_cast<double>(y));
  const float actual = pow_f32(x, y), nearest = static_cast<float>(exact);
  if (std::isnan(exact)) return std::isnan(actual) ? 0 : 1e9;
  if (std::signbit(actual) != std::signbit(nearest)) return 1e9;
  if (actual == nearest) return 0;
  if (std::isinf(actual) || std::isinf(nearest)) {
    // Around the largest number.
    const double largest = std::numeric_limits<float>::max();
    return std::fabs(actual) >= largest && std::fabs(exact) >= largest ? 1 : 1e9;
  }
  const float above = std::nextafter(nearest, std::numeric_limits<float>::infinity());
  return std::fabs(actual - exact) / std::fabs(static_cast<double>(above) - nearest);
}

TEST(FloatMathTest, PowerOfSpecialValues) {
  const float inf = std::numeric_limits<float>::infinity();
  const float values[] = {0.f,        1.f,           2.f,    0.5f,   3.f,
                          inf,        std::nanf(""), 1e-45f, 1e38f,  3.4e38f,
                          16777217.f, 16777215.f,    1.5f,   1e-30f, 4e9f};
  for (const float a : values) {
    for (const float b : values) {
      for (const float x : {a, -a}) {
        for (const float y : {b, -b}) {
          EXPECT_LE(Units(x, y), 4) << x << "^" << y << " is " << pow_f32(x, y);
        }
      }
    }
  }
}

TEST(FloatMathTest, PowerOfAnyNumber) {
  std::mt19937 random(1);
  for (int i = 0; i < 300000; ++i) {
    const float x = as_f32(random() & 0x7fffffffu);
    ASSERT_LE(Units(x, as_f32(random())), 4.5) << x;
    ASSERT_LE(Units(x, static_cast<int>(random() % 4000) / 100.f - 20), 4.5) << x;
  }
}

// Sums of squares to the powers of LRN: nothing is lost.
TEST(FloatMathTest, PowerOfModestNumbers) {
  std::mt19937 random(2);
  for (int i = 0; i < 300000; ++i) {
    const float x = 1 + static_cast<float>(random() % 1000000) / (1 + random() % 100000);
    for (const float y : {-0.75f, -1.75f, 0.5f, 2.f, 3.f}) ASSERT_LE(Units(x, y), 1.1) << x;
  }
}

TEST(FloatMathTest, ExponentialAndLogarithm) {
  std::mt19937 random(3);
  for (int i = 0; i < 300000; ++i) {
    const float x = static_cast<int>(random() % 170001) / 1000.f - 85;
    ASSERT_NEAR(exp_f32(x) / std::exp(static_cast<double>(x)), 1, 2e-7) << x;
    const float a = as_f32(random() % 0x7f800000u);
    const double exact = std::log(static_cast<double>(a));
    ASSERT_NEAR(log_f32(a), exact, 1.5e-7 * std::max(1e-3, std::fabs(exact))) << a;
  }
}

TEST(FloatMathTest, NaNStaysNaN) {
  for (const u32 bits : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xff8000ffu, 0x7fffffffu}) {
    const float x = as_f32(bits);
    EXPECT_TRUE(std::isnan(exp_f32(x))) << bits;
    EXPECT_TRUE(std::isnan(expm1_f32(x))) << bits;
    EXPECT_TRUE(std::isnan(tanh_f32(x))) << bits;
    EXPECT_TRUE(std::isnan(log_f32(x))) << bits;
    EXPECT_TRUE(std::isnan(pow_f32(x, 2))) << bits;
    EXPECT_TRUE(std::isnan(pow_f32(2, x))) << bits;
  }
}

// Relative to the result everywhere, around 0, too.
TEST(FloatMathTest, ExponentialMinusOneAndTangent) {
  std::mt19937 random(4);
  for (int i = 0; i < 600000; ++i) {
    const float x = i % 2 ? as_f32(random()) : static_cast<int>(random() % 40001) / 2000.f - 10;
    if (std::isnan(x)) continue;
    const double tangent = std::tanh(static_cast<double>(x));
    ASSERT_NEAR(tanh_f32(x), tangent, 2e-7 * std::fabs(tangent) + 1e-45) << x;
    const double exact = std::expm1(static_cast<double>(x));
    if (exact > std::numeric_limits<float>::max()) continue;
    ASSERT_NEAR(expm1_f32(x), exact, 2e-7 * std::fabs(exact) + 1e-45) << x;
  }
  const float inf = std::numeric_limits<float>::infinity();
  for (const float zero : {0.f, -0.f}) {
    EXPECT_EQ(tanh_f32(zero), 0);
    EXPECT_EQ(expm1_f32(zero), 0);
  }
  EXPECT_EQ(tanh_f32(inf), 1);
  EXPECT_EQ(tanh_f32(-inf), -1);
  EXPECT_EQ(expm1_f32(inf), inf);
  EXPECT_EQ(expm1_f32(-inf), -1);
  EXPECT_TRUE(std::isnan(tanh_f32(std::nanf(""))));
  EXPECT_TRUE(std::isnan(expm1_f32(std::nanf(""))));
}

}  // namespace
}  // namespace caffe

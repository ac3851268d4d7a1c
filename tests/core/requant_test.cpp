#include "caffe/core/requant.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

TEST(RequantTest, MultiplierIsNormalised) {
  for (int exponent = -60; exponent <= 40; ++exponent) {
    for (double mantissa : {1.0, 1.0000001, 1.25, 1.5, 1.9999999}) {
      const double factor = std::ldexp(mantissa, exponent);
      const Requant requant = Requant::FromReal(factor);
      EXPECT_GE(requant.multiplier, int32_t{1} << 30) << factor;
      EXPECT_LE(std::abs(requant.real() / factor - 1), std::ldexp(1.0, -31)) << factor;
    }
  }
}

TEST(RequantTest, PowersOfTwoAreExact) {
  const Requant one = Requant::FromReal(1);
  EXPECT_EQ(one.multiplier, int32_t{1} << 30);
  EXPECT_EQ(one.shift, 30);
  EXPECT_EQ(Requant::FromReal(0.25).shift, 32);
  EXPECT_EQ(Requant::FromReal(std::ldexp(1.0, 31)).shift, -1);
}

// 31 bits that round up to 2^31 become 2^30 with one shift less.
TEST(RequantTest, RoundsUpIntoTheNextBinade) {
  const Requant requant = Requant::FromReal(std::nextafter(2.0, 0.0));
  EXPECT_EQ(requant.multiplier, int32_t{1} << 30);
  EXPECT_EQ(requant.shift, 29);
}

TEST(RequantTest, ZeroIsZero) {
  const Requant zero = Requant::FromReal(0);
  EXPECT_EQ(zero.multiplier, 0);
  EXPECT_EQ(zero.real(), 0);
}

TEST(RequantTest, RefusesWhatIsNoFactor) {
  EXPECT_THROW(Requant::FromReal(-0.5), Error);
  EXPECT_THROW(Requant::FromReal(std::numeric_limits<double>::infinity()), Error);
  EXPECT_THROW(Requant::FromReal(std::numeric_limits<double>::quiet_NaN()), Error);
}

}  // namespace
}  // namespace caffe

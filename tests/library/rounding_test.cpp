#include "caffe/library/rounding.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace caffe {
namespace {

TEST(QuotientTest, DividesAsIntegersDo) {
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d < 300; ++d) divisors.push_back(d);
  for (int power = 9; power < 31; ++power) {
    for (const int64_t d : {-1, 0, 1}) divisors.push_back((int64_t{1} << power) + d);
  }
  divisors.push_back(INT32_MAX);
  for (const int64_t d : divisors) {
    const Quotient by(d);
    EXPECT_LT(by.multiplier, int64_t{1} << 32) << d;
    const auto quotient = [&](int64_t n) {  // as kernels/math/quotient.h
      return static_cast<int64_t>(static_cast<uint64_t>(n) * static_cast<uint64_t>(by.multiplier) >>
                                  by.shift);
    };
    std::vector<int64_t> numbers{0, 1, INT32_MAX - 1, INT32_MAX};
    for (const int64_t multiple : {int64_t{1}, int64_t{2}, int64_t{77}, INT32_MAX / d}) {
      for (const int64_t near : {-1, 0, 1}) numbers.push_back(multiple * d + near);
    }
    for (const int64_t n : numbers) {
      if (n < 0 || n > INT32_MAX) continue;
      EXPECT_EQ(quotient(n), n / d) << n << " / " << d;
    }
  }
}

}  // namespace
}  // namespace caffe

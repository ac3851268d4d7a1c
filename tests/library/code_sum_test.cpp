// Sums of codes with a residual on the CPU, against their definition in exact arithmetic: all
// instructions that the processor has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "caffe/device/cpu/cpu_device.hpp"
#include "caffe/library/native/code_sum_steps.hpp"
#include "library/exact_codes.hpp"
#include "library/exact_requantize.hpp"

namespace caffe {

#if defined(__x86_64__)
extern const CodeSumSteps code_sum_steps_v2, code_sum_steps_v3, code_sum_steps_v4;
#else
extern const CodeSumSteps code_sum_steps_neon;
#endif

namespace {

using exact::Numbers;
using test::Wide;

std::vector<std::pair<std::string, const CodeSumSteps*>> AllSteps() {
#if defined(__x86_64__)
  std::vector<std::pair<std::string, const CodeSumSteps*>> all{{"v2", &code_sum_steps_v2}};
  if (HostLevel() != "v2") all.emplace_back("v3", &code_sum_steps_v3);
  if (HostLevel() == "v4") all.emplace_back("v4", &code_sum_steps_v4);
  return all;
#else
  return {{"neon", &code_sum_steps_neon}};
#endif
}

// v / 2^shift, rounded half away from zero.
Wide Rounded(Wide v, int shift) {
  const Wide magnitude = v < 0 ? -v : v, half = shift == 0 ? 0 : Wide{1} << (shift - 1);
  const Wide r = (magnitude + half) >> shift;
  return v < 0 ? -r : r;
}

int Expected(const CodeSumRows& r, int own, int residual) {
  const Wide sum = Wide{own - r.zero_own} * r.own + Wide{residual - r.zero_residual} * r.factor;
  const Wide s = std::clamp<Wide>(Rounded(sum, r.shift) + r.zero_sum, 0, 255);
  if (!r.relu) return static_cast<int>(s);
  const Wide v = std::max<Wide>(s - r.zero_sum, 0);
  return static_cast<int>(
      std::clamp<Wide>(Rounded(v * r.multiplier, r.rescale_shift) + r.zero_result, 0, 255));
}

// All pairs of codes, in rows with a gap.
void Check(CodeSumRows r) {
  constexpr int kRows = 256, kPitch = 259;
  std::vector<uint8_t> residual(kRows * 256);
  for (int i = 0; i < kRows * 256; ++i) residual[i] = static_cast<uint8_t>(i % 256);
  for (const auto& [name, steps] : AllSteps()) {
    for (const bool relu : {false, true}) {
      std::vector<uint8_t> y(kRows * kPitch);
      for (int i = 0; i < kRows * kPitch; ++i) y[i] = static_cast<uint8_t>(i / kPitch);
      const std::vector<uint8_t> before = y;
      r.rows = kRows;
      r.n = 256 - 3;  // not a multiple of a vector
      r.bytes = 1;
      r.residual = residual.data();
      r.residual_stride = 256;
      r.y = y.data();
      r.y_stride = kPitch;
      r.relu = relu;
      steps->add(r);
      for (int row = 0; row < kRows; ++row) {
        for (int i = 0; i < kPitch; ++i) {
          const int at = row * kPitch + i;
          const int expected = i < r.n ? Expected(r, row, residual[row * 256 + i]) : before[at];
          ASSERT_EQ(y[at], expected)
              << name << ", " << row << " and " << i << ", factors " << r.own << ", " << r.factor
              << " shift " << r.shift << ", zero " << r.zero_own << ", " << r.zero_residual << ", "
              << r.zero_sum << ", ReLU " << relu << " " << r.multiplier << " shift "
              << r.rescale_shift;
        }
      }
    }
  }
}

TEST(CodeSumTest, RandomFactorsAndZeroPoints) {
  Numbers numbers(3);
  for (int round = 0; round < 24; ++round) {
    CodeSumRows r{};
    r.shift = static_cast<int>(numbers.Next(28, 33));
    r.own = static_cast<int>(numbers.Next(0, 0x7fffffff));
    r.factor = static_cast<int>(numbers.Next(-0x7fffffff, 0x7fffffff));
    r.zero_own = static_cast<int>(numbers.Next(0, 255));
    r.zero_residual = static_cast<int>(numbers.Next(0, 255));
    r.zero_sum = static_cast<int>(numbers.Next(0, 255));
    r.multiplier = static_cast<int>(numbers.Next(1 << 30, 0x7fffffff));
    r.rescale_shift = static_cast<int>(numbers.Next(29, 32));
    r.zero_result = static_cast<int>(numbers.Next(0, 99));
    Check(r);
  }
}

// Factors of 1/2 and 1/4 have sums in the middle of two codes. The others are the limits of a half
// of a factor, and of shifts.
TEST(CodeSumTest, TiesAndLimits) {
  const int limit = 0x7fff8000;
  for (const int own : {1 << 29, 1 << 28, limit - 1, limit, 0x7fffffff, -0x7fffffff, 0x8000, 0}) {
    for (const int shift : {0, 16, 17, 30, 31, 46, 47, 62}) {
      CodeSumRows r{};
      r.shift = r.rescale_shift = shift;
      r.own = own;
      r.factor = shift % 2 == 0 ? 1 << 29 : -own;
      r.zero_own = r.zero_residual = 100;
      r.zero_sum = 120;
      r.multiplier = shift == 30 ? 0x60000000 : 0x7fffffff;
      Check(r);
    }
  }
}

}  // namespace
}  // namespace caffe

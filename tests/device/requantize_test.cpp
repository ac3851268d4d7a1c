#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/program_builder.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

constexpr int64_t kLimit = 0x7fffffff;

// The specification in 128-bit arithmetic: round half away from zero, clamp to +-(2^31 - 1). A sum
// of more than 32 bits with a shift of at most 32 has no code and saturates.
int64_t Expected(int64_t v, int32_t multiplier, int32_t shift) {
  using Wide = unsigned __int128;
  if (v == 0 || multiplier == 0) return 0;
  const uint64_t magnitude = v < 0 ? uint64_t{0} - static_cast<uint64_t>(v) : v;
  int64_t result = kLimit;
  if (shift >= 0 && !(magnitude >> 32 && shift <= 32)) {
    const Wide product = static_cast<Wide>(magnitude) * static_cast<uint32_t>(multiplier);
    const Wide half = shift == 0 ? 0 : static_cast<Wide>(1) << (shift - 1);
    result = static_cast<int64_t>(std::min<Wide>((product + half) >> shift, kLimit));
  }
  return v < 0 ? -result : result;
}

// A fixed sequence of 64 random bits (splitmix64).
class Bits {
 public:
  uint64_t Next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_ = 1701;
};

// Every power of two with its neighbours, both ends, and random numbers of every length.
template <class T> std::vector<T> Sums() {
  using Unsigned = std::make_unsigned_t<T>;
  std::vector<T> sums{0, std::numeric_limits<T>::max(), std::numeric_limits<T>::min()};
  const int bits = std::numeric_limits<T>::digits;
  Bits random;
  for (int k = 0; k < bits; ++k) {
    for (int64_t offset : {-1, 0, 1}) {
      const T value = static_cast<T>((Unsigned{1} << k) + static_cast<Unsigned>(offset));
      sums.insert(sums.end(), {value, static_cast<T>(-value)});
    }
    const T value = static_cast<T>(random.Next() >> (64 - bits) >> k);
    sums.insert(sums.end(), {value, static_cast<T>(-value)});
  }
  return sums;
}

// Every shift from -1 to 95 with the smallest, the largest and random multipliers, and 0.
std::vector<Requant> Factors() {
  std::vector<Requant> factors;
  Bits random;
  for (int shift = -1; shift <= 95; ++shift) {
    for (int32_t multiplier : {0, 1 << 30, (1 << 30) + 1, 0x7fffffff,
                               (1 << 30) | static_cast<int32_t>(random.Next() >> 34),
                               (1 << 30) | static_cast<int32_t>(random.Next() >> 34)}) {
      factors.push_back({multiplier, shift});
    }
  }
  return factors;
}

class DeviceArray {
 public:
  DeviceArray(Device* device, int64_t bytes)
      : device_(device), bytes_(bytes), pointer_(device->Allocate(bytes, "a test")) {}
  template <class T>
  DeviceArray(Device* device, const std::vector<T>& values)
      : DeviceArray(device, static_cast<int64_t>(values.size() * sizeof(T))) {
    device_->Upload(pointer_, values.data(), bytes_);
  }
  ~DeviceArray() { device_->Free(pointer_); }
  DevicePtr pointer() const { return pointer_; }
  template <class T> std::vector<T> Read() const {
    std::vector<T> values(bytes_ / sizeof(T));
    device_->Download(values.data(), pointer_, bytes_);
    return values;
  }

 private:
  Device* device_;
  int64_t bytes_;
  DevicePtr pointer_;
};

template <class T> void CompareWithSpecification(Device* device, const char* kernel_name) {
  const std::vector<T> sums = Sums<T>();
  const std::vector<Requant> factors = Factors();
  std::vector<T> x;
  std::vector<int32_t> multipliers, shifts;
  for (T sum : sums) x.insert(x.end(), factors.size(), sum);
  for (const Requant& factor : factors) {
    multipliers.push_back(factor.multiplier);
    shifts.push_back(factor.shift);
  }
  const DeviceArray device_x(device, x), m(device, multipliers), n(device, shifts);
  const DeviceArray device_y(device, static_cast<int64_t>(x.size() * sizeof(int32_t)));
  auto kernel = ProgramBuilder(device, "requantize")
                    .Body("quant/requantize")
                    .Build()
                    ->CreateKernel(kernel_name);
  const auto rows = static_cast<int64_t>(sums.size());
  const auto channels = static_cast<int64_t>(factors.size());
  kernel->Launch({rows, channels}, {rows, channels, device_x.pointer(), m.pointer(), n.pointer(),
                                    device_y.pointer()});
  const auto y = device_y.Read<int32_t>();
  int64_t zeros = 0, above = 0, below = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const Requant& factor = factors[i % factors.size()];
    const int64_t expected = Expected(x[i], factor.multiplier, factor.shift);
    ASSERT_EQ(y[i], expected) << x[i] << " * " << factor.multiplier << " >> " << factor.shift;
    zeros += expected == 0;
    above += expected == kLimit;
    below += expected == -kLimit;
  }
  // The cases do meet zero and both saturations.
  EXPECT_GT(zeros, 1000);
  EXPECT_GT(above, 1000);
  EXPECT_GT(below, 1000);
}

class RequantizeTest : public testing::TestWithParam<DeviceType> {};

TEST_P(RequantizeTest, SumsOf32Bits) {
  CompareWithSpecification<int32_t>(GetParam().device, "requantize_sums_i32");
}

TEST_P(RequantizeTest, SumsOf64Bits) {
  CompareWithSpecification<int64_t>(GetParam().device, "requantize_sums_i64");
}

INSTANTIATE_TEST_SUITE_P(All, RequantizeTest, testing::ValuesIn(DevicesAndTypes({kFloat})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

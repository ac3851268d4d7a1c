// oneDNN's maximum turns NaN into 0. A convolution that computes ReLU in oneDNN's call must keep
// NaN. Operands of bfloat16 are widened where the processor multiplies float faster.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "caffe/library/onednn/bfloat16_time.hpp"
#include "library/library_support.hpp"

namespace caffe {
namespace {

using test::Array;
using test::Values;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Case {
  int64_t in, out, extent, kernel, pad, group;
  bool sum;
};

class OneDnnTest : public ::testing::TestWithParam<Case> {
 protected:
  ConvDescriptor Descriptor(DataType type) const {
    const Case& c = GetParam();
    ConvDescriptor d;
    d.batch = 1;
    d.in_channels = c.in;
    d.out_channels = c.out;
    d.group = c.group;
    d.geometry = {{c.extent, c.extent}, {c.kernel, c.kernel}, {}, {c.pad, c.pad}, {}};
    d.in = d.out = type;
    d.x_layout = d.y_layout = Layout::kNHWC;
    d.epilogue.bias = Epilogue::Bias::kPerRow;
    if (c.sum) d.epilogue.stages = {ResidualSum{}};
    d.Normalize();
    return d;
  }
};

// One operator, with the same weights for all calls.
class Convolution {
 public:
  Convolution(Device* device, const ConvDescriptor& d, const char* library = "onednn")
      : device_(device),
        op_(Multiplexer::ConvolutionBy(library, device, d)),
        memory_(device, op_.get()),
        weights_(device, d.in, Values(d.weight_count(), 2)),
        bias_(device, d.master(), Values(d.out_channels, 3)),
        residual_(device, d.out, Values(Count(d), 4)),
        y_(device, d.out, std::vector<double>(Count(d), 99)),
        prepared_(memory_.Prepare(weights_)) {}
  static int64_t Count(const ConvDescriptor& d) {
    return d.batch * d.out_channels * d.geometry.output_count();
  }
  std::vector<double> operator()(const std::vector<double>& x) {
    const Array from(device_, op_->descriptor().in, x);
    const int64_t launches = device_->counters().launches;
    Run(from);
    launches_ = device_->counters().launches - launches;
    return y_.Read();
  }
  void Run(DevicePtr x) {
    ConvArguments arguments{x, weights_, prepared_, bias_, y_};
    arguments.workspace = memory_.workspace();
    if (op_->descriptor().epilogue.sum()) arguments.epilogue.residual = residual_;
    op_->Forward(arguments);
  }
  int64_t launches() const { return launches_; }  // of the last call

 private:
  Device* device_;
  std::unique_ptr<ConvOp> op_;
  test::Memory memory_;
  const Array weights_, bias_, residual_, y_;
  DevicePtr prepared_;
  int64_t launches_ = 0;
};

// NaN in the first image's first or last element, so that one thread alone meets it.
TEST_P(OneDnnTest, ReLUKeepsNaN) {
  Device* device = Runtime::Get().cpu();
  for (const DataType type : {kFloat, kBfloat16}) {
    const ConvDescriptor plain = Descriptor(type);
    const auto libraries = Multiplexer::ConvolutionLibraries(device, plain);
    if (std::find(libraries.begin(), libraries.end(), "onednn") == libraries.end()) {
      GTEST_SKIP() << "this build has no oneDNN";
    }
    ConvDescriptor with = plain;
    with.epilogue.stages.push_back(kPlainReLU);
    Convolution sums(device, plain), relu(device, with);
    const auto clean = Values(plain.in_channels * plain.geometry.input_count(), 1);
    const int64_t last = static_cast<int64_t>(clean.size()) - 1;
    // NaN first: the second one meets an operator that has seen NaN.
    for (const int64_t at : {int64_t{-1}, last, int64_t{-1}, int64_t{0}, last, int64_t{-1}}) {
      auto x = clean;
      if (at >= 0) x[at] = kNaN;
      const auto expected = sums(x), found = relu(x);
      int64_t different = 0, kept = 0;
      for (size_t i = 0; i < expected.size(); ++i) {
        if (std::isnan(expected[i])) {
          ++kept;
          different += !std::isnan(found[i]);
        } else {
          different += found[i] != std::max(expected[i], 0.0);
        }
      }
      EXPECT_EQ(different, 0) << type.name() << " " << plain.name() << ", NaN at " << at;
      EXPECT_EQ(kept > 0, at >= 0) << type.name() << " " << plain.name();
    }
  }
}

// In float a pass over the result is a launch.
TEST_P(OneDnnTest, ReLUIsPartOfTheCall) {
  Device* device = Runtime::Get().cpu();
  ConvDescriptor d = Descriptor(kFloat);
  const auto libraries = Multiplexer::ConvolutionLibraries(device, d);
  if (d.epilogue.sum() ||
      std::find(libraries.begin(), libraries.end(), "onednn") == libraries.end()) {
    GTEST_SKIP() << "sums in float are a pass, or this build has no oneDNN";
  }
#if !defined(__x86_64__)
  GTEST_SKIP() << "only the flags of x86 tell that NaN was lost";
#endif
  d.epilogue.stages.push_back(kPlainReLU);
  Convolution relu(device, d);
  auto x = Values(d.in_channels * d.geometry.input_count(), 1);
  relu(x);
  relu(x);
  EXPECT_EQ(relu.launches(), 0);
  x[0] = kNaN;
  relu(x);
  EXPECT_EQ(relu.launches(), 1);
}

// A flag that an earlier operation set does not change the result, and is cleared.
TEST_P(OneDnnTest, EarlierInvalidOperationsAreForgotten) {
  Device* device = Runtime::Get().cpu();
  ConvDescriptor d = Descriptor(kFloat);
  const auto libraries = Multiplexer::ConvolutionLibraries(device, d);
  if (std::find(libraries.begin(), libraries.end(), "onednn") == libraries.end()) {
    GTEST_SKIP() << "this build has no oneDNN";
  }
  d.epilogue.stages.push_back(kPlainReLU);
  Convolution relu(device, d);
  const auto x = Values(d.in_channels * d.geometry.input_count(), 1);
  relu(x);  // clears the flags that other tests have set
  const auto expected = relu(x);
  const int64_t launches = relu.launches();
  for (int i = 0; i < 3; ++i) {
    volatile double zero = 0;
    volatile double invalid = zero / zero;
    EXPECT_TRUE(std::isnan(invalid));
    EXPECT_EQ(relu(x), expected);
  }
  EXPECT_EQ(relu.launches(), launches) << "computed again without need";
}

INSTANTIATE_TEST_SUITE_P(Convolutions, OneDnnTest,
                         ::testing::Values(Case{64, 128, 28, 1, 0, 1, false},
                                           Case{64, 64, 28, 3, 1, 1, false},
                                           Case{64, 64, 30, 3, 1, 64, false},
                                           Case{3, 32, 40, 3, 1, 1, false},
                                           Case{64, 256, 28, 1, 0, 1, true}));

ConvDescriptor Bfloat16(int64_t in, int64_t out, int64_t extent, int64_t kernel, int64_t group) {
  ConvDescriptor d;
  d.batch = 1;
  d.in_channels = in;
  d.out_channels = out;
  d.group = group;
  d.geometry = {{extent, extent}, {kernel, kernel}, {}, {kernel / 2, kernel / 2}, {}};
  d.in = d.out = kBfloat16;
  d.x_layout = d.y_layout = Layout::kNHWC;
  d.backward_data = d.backward_weights = false;
  d.Normalize();
  return d;
}

// Which of the two is faster depends on the processor, and is measured once. Noise does not change
// the ratio, which is rounded to halves.
TEST(OneDnnBfloat16Test, TheFasterProductsArePreferred) {
  Device* device = Runtime::Get().cpu();
  const auto first = [&](const ConvDescriptor& d) {
    return Multiplexer::ConvolutionLibraries(device, d)[0];
  };
  const ConvDescriptor many = Bfloat16(128, 128, 28, 3, 1);
  const auto libraries = Multiplexer::ConvolutionLibraries(device, many);
  if (std::find(libraries.begin(), libraries.end(), "onednn_float") == libraries.end()) {
    GTEST_SKIP() << "without oneDNN, or without products of bfloat16";
  }
  const double time = onednn::Bfloat16Time();
  EXPECT_GE(time, 0);
  EXPECT_EQ(std::fmod(2 * time, 1), 0);
  EXPECT_EQ(first(many), time > 1 ? "onednn_float" : "onednn") << time;
  // Bound by reading x and y, and by reading weights.
  EXPECT_EQ(first(Bfloat16(256, 256, 28, 3, 256)), "onednn");
  EXPECT_EQ(first(Bfloat16(1024, 1000, 1, 1, 1)), "onednn");
}

// Sums of widened operands differ from those of the processor's products in their order only.
TEST(OneDnnBfloat16Test, WidenedOperandsGiveTheSameResults) {
  Device* device = Runtime::Get().cpu();
  for (const ConvDescriptor& d :
       {Bfloat16(64, 48, 9, 3, 1), Bfloat16(32, 64, 12, 1, 1), Bfloat16(32, 32, 9, 3, 32)}) {
    const auto libraries = Multiplexer::ConvolutionLibraries(device, d);
    if (std::find(libraries.begin(), libraries.end(), "onednn_float") == libraries.end()) {
      GTEST_SKIP() << "without oneDNN, or without products of bfloat16";
    }
    const auto x = Values(d.in_channels * d.geometry.input_count(), 1);
    const auto own = Convolution(device, d)(x), wide = Convolution(device, d, "onednn_float")(x);
    double scale = 0;
    for (const double value : own) scale = std::max(scale, std::abs(value));
    for (size_t i = 0; i < own.size(); ++i) {
      ASSERT_NEAR(own[i], wide[i], std::ldexp(scale, -8)) << d.name() << " " << i;
    }
  }
}

}  // namespace
}  // namespace caffe

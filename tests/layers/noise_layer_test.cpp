#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

std::string NoiseText(const std::string& more) {
  return "type: 'Noise' noise_param { " + more + " }";
}

class NoiseLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(NoiseLayerTest, OneNumberMultipliesAnItem) {
  const auto [device, type] = GetParam();
  LayerTester layer(NoiseText("mu: 0.5 sigma: 2"), device, TypeTriple::Equal(type), {{6, 2, 3}});
  layer.SetBottom(0, std::vector<double>(36, 1));
  layer.Forward();
  const std::vector<double> y = layer.Top();
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], y[i / 6 * 6]) << i;
  for (size_t n = 1; n < 6; ++n) EXPECT_NE(y[n * 6], y[0]);
  layer.RandomTopDiff();
  layer.Backward();
  std::vector<double> expected = layer.top().DiffAsDouble();
  for (size_t i = 0; i < y.size(); ++i) expected[i] *= y[i];
  ExpectNear(layer.BottomDiff(0), expected, 4 * Tolerance(type), "the same numbers in dE/dx");
  layer.Forward();
  EXPECT_NE(layer.Top(), y) << "every forward has numbers of its own";
}

TEST_P(NoiseLayerTest, Additive) {
  const auto [device, type] = GetParam();
  const std::string text = NoiseText("sigma: 1 per_element: true additive: true");
  LayerTester layer(text, device, TypeTriple::Equal(type), {{4, 5}});
  layer.Forward();
  EXPECT_NE(layer.Top(), layer.Bottom(0));
  layer.RandomTopDiff();
  layer.Backward();
  EXPECT_EQ(layer.BottomDiff(0), layer.top().DiffAsDouble());
  LayerTester test("phase: TEST " + text, device, TypeTriple::Equal(type), {{4, 5}});
  test.Forward();
  EXPECT_EQ(test.Top(), test.Bottom(0));
}

TEST_P(NoiseLayerTest, TestPhase) {
  const auto [device, type] = GetParam();
  LayerTester zero("phase: TEST " + NoiseText("mu: 3"), device, TypeTriple::Equal(type), {{4, 5}});
  zero.Forward();
  EXPECT_EQ(zero.Top(), std::vector<double>(20, 0)) << "the fork's value";
  LayerTester mean("phase: TEST " + NoiseText("mu: 0.5 test_mean: true"), device,
                   TypeTriple::Equal(type), {{4, 5}});
  mean.Forward();
  std::vector<double> expected = mean.Bottom(0);
  for (double& value : expected) value *= 0.5;
  ExpectNear(mean.Top(), expected, Tolerance(type), "x * mu");
}

TEST_P(NoiseLayerTest, OneSeedGivesTheSameNumbersEverywhere) {
  const auto [device, type] = GetParam();
  const std::string text = NoiseText("sigma: 1 per_element: true");
  LayerTester here(text, device, TypeTriple::Equal(type), {{100}}, 1, 5);
  LayerTester reference(text, Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{100}}, 1, 5);
  for (int i = 0; i < 2; ++i) {
    here.Forward();
    reference.Forward();
    ExpectNear(here.Top(), reference.Top(), 4 * std::max(Tolerance(type), Tolerance(kFloat)), "y");
  }
}

TEST_P(NoiseLayerTest, RunStateRepeatsTheNumbers) {
  const auto [device, type] = GetParam();
  LayerTester layer(NoiseText(""), device, TypeTriple::Equal(type), {{50, 2}});
  layer.Forward();
  const std::vector<uint64_t> state = layer.layer().RunState();
  layer.Forward();
  const std::vector<double> second = layer.Top();
  layer.Forward();
  EXPECT_NE(layer.Top(), second);
  layer.layer().SetRunState(layer.layer().context().seed, state);
  layer.Forward();
  EXPECT_EQ(layer.Top(), second);
}

INSTANTIATE_TEST_SUITE_P(All, NoiseLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

// The largest distance of the empirical distribution from the normal one (Kolmogorov and Smirnov).
TEST(NoiseDistributionTest, IsNormal) {
  const int64_t count = 200000;
  LayerTester layer(NoiseText("mu: 0 sigma: 1"), Runtime::Get().cpu(), TypeTriple::Equal(kFloat),
                    {{count}});
  layer.SetBottom(0, std::vector<double>(count, 1));
  layer.Forward();
  std::vector<double> z = layer.Top();
  std::sort(z.begin(), z.end());
  double distance = 0, squares = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double wanted = 0.5 * std::erfc(-z[i] / std::sqrt(2.0));
    distance = std::max(distance, std::abs((static_cast<double>(i) + 0.5) / count - wanted));
    squares += z[i] * z[i];
  }
  EXPECT_LT(distance, 1.63 / std::sqrt(static_cast<double>(count))) << "at the level of 1 %";
  EXPECT_NEAR(squares / count, 1, 0.02);
  EXPECT_GT(z.back(), 4);
  EXPECT_LT(z.front(), -4);
}

TEST(NoiseGradientTest, AgreesWithDifferences) {
  for (const char* more : {"mu: 1", "additive: true", "per_element: true"}) {
    LayerTester layer(NoiseText(more), Runtime::Get().cpu(), TypeTriple::Equal(kDouble), {{4, 3}});
    layer.CheckGradient();
  }
}

TEST(NoiseErrorTest, NegativeSigma) {
  EXPECT_THROW(
      LayerTester(NoiseText("sigma: -1"), Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{2}}),
      Error);
}

}  // namespace
}  // namespace caffe

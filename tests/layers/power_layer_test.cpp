#include <gtest/gtest.h>

#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/in_place.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

std::vector<double> Range(double low, double high, int count) {
  std::vector<double> values(count);
  for (int i = 0; i < count; ++i) {
    values[i] = static_cast<float>(low + (high - low) * i / (count - 1));
  }
  return values;
}

std::string PowerText(double power, double scale, double shift) {
  return Concat("type: 'Power' power_param { power: ", power, " scale: ", scale, " shift: ", shift,
                " }");
}

struct Case {
  double power, scale, shift;
};
// The special cases, then ordinary ones: whole powers of both signs, roots of positive numbers.
const Case kCases[] = {{0, 3, 1},      {2.5, 0, 1.5}, {0, 0, 0},    {1, 1, 0},   {1, -2, 0.5},
                       {2, 1, 0},      {2, 3, -0.5},  {3, 2, 0},    {3, 1, 0.5}, {-1, 1, 3},
                       {0.75, 0.5, 2}, {-2.5, 1, 2},  {-2, 1.5, -3}};

double PowerOf(const Case& c, double x) { return std::pow(c.shift + c.scale * x, c.power); }

double SlopeOf(const Case& c, double x) {
  if (c.power * c.scale == 0) return 0;
  return c.power * c.scale * std::pow(c.shift + c.scale * x, c.power - 1);
}

class PowerLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(PowerLayerTest, ForwardAndBackward) {
  const auto [device, type] = GetParam();
  for (const Case& c : kCases) {
    LayerTester layer(PowerText(c.power, c.scale, c.shift), device, TypeTriple::Equal(type),
                      {{2, 3, 5, 7}});
    std::vector<double> x = layer.Bottom(0);
    x[0] = 0;
    layer.SetBottom(0, x);
    layer.Forward();
    layer.RandomTopDiff();
    layer.Backward();
    std::vector<double> y(x.size()), expected = layer.top().DiffAsDouble();
    for (size_t i = 0; i < x.size(); ++i) {
      y[i] = PowerOf(c, x[i]);
      expected[i] *= SlopeOf(c, x[i]);
    }
    const std::string what = PowerText(c.power, c.scale, c.shift);
    ExpectNear(layer.Top(), y, Tolerance(type), "y of " + what);
    ExpectNear(layer.BottomDiff(0), expected, Tolerance(type), "dE/dx of " + what);

    const InPlaceResult in_place = RunInPlace(layer);
    EXPECT_EQ(in_place.data, layer.Top()) << what;
    EXPECT_EQ(in_place.diff, layer.BottomDiff(0)) << what;
  }
}

TEST_P(PowerLayerTest, NegativeNumbersHaveNoRoots) {
  const auto [device, type] = GetParam();
  LayerTester layer(PowerText(0.5, 1, 0), device, TypeTriple::Equal(type), {{3}});
  layer.SetBottom(0, {-1, 0, 4});
  layer.Forward();
  EXPECT_TRUE(std::isnan(layer.Top()[0]));
  EXPECT_EQ(layer.Top()[1], 0);
  ExpectNear({layer.Top()[2]}, {2}, Tolerance(type), "root of 4");
}

INSTANTIATE_TEST_SUITE_P(All, PowerLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

// Float results are compared bit for bit: nothing of a vendor's library takes part.
TEST(PowerLayerBitsTest, AreTheSameOnEveryDevice) {
  const std::vector<double> x = Range(1e-3, 30, 100003);
  std::vector<double> expected;
  for (Device* device : TestDevices()) {
    LayerTester layer(PowerText(-7.3, 1.5, 0.25), device, TypeTriple::Equal(kFloat), {{100003}});
    layer.SetBottom(0, x);
    layer.Forward();
    if (expected.empty()) expected = layer.Top();
    EXPECT_EQ(layer.Top(), expected) << device->info().id;
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const double y = std::pow(static_cast<float>(0.25 + 1.5 * x[i]), static_cast<float>(-7.3));
    // The base itself is rounded to float after the product and after the sum.
    ASSERT_NEAR(expected[i], y, 2e-6 * y) << x[i];
  }
}

TEST(PowerLayerGradientTest, AgreesWithDifferences) {
  for (const Case& c : kCases) {
    LayerTester layer(PowerText(c.power, c.scale, c.shift), Runtime::Get().cpu(),
                      TypeTriple::Equal(kDouble), {{2, 3, 4}});
    layer.CheckGradient();
  }
}

TEST(PowerLayerShapeTest, RefusesWhatDoesNotFit) {
  EXPECT_THROW(
      LayerTester("type: 'Power'", Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{2}, {2}}),
      Error);
  LayerTester layer(PowerText(3, 1, 0), Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{2}});
  const BlobVec blob{&layer.bottom()};
  layer.bottom().SetDiff({1, 1});
  EXPECT_THROW(layer.layer().Backward(blob, {true}, blob), Error) << "no forward in place before";
}

}  // namespace
}  // namespace caffe

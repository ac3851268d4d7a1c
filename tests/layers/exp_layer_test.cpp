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

std::string ExpText(double base, double scale, double shift) {
  return Concat("type: 'Exp' exp_param { base: ", base, " scale: ", scale, " shift: ", shift, " }");
}

struct Case {
  double base, scale, shift;
};
const Case kCases[] = {{-1, 1, 0},       {-1, 2, 0.5}, {2, 1, 0},
                       {10, 0.5, -0.25}, {0.5, 3, 1},  {1, 1, 1}};

class ExpLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(ExpLayerTest, ForwardAndBackward) {
  const auto [device, type] = GetParam();
  for (const Case& c : kCases) {
    LayerTester layer(ExpText(c.base, c.scale, c.shift), device, TypeTriple::Equal(type),
                      {{2, 3, 5, 7}});
    layer.Forward();
    layer.RandomTopDiff();
    layer.Backward();
    const double base = c.base == -1 ? std::exp(1.0) : c.base;
    const std::vector<double> x = layer.Bottom(0);
    std::vector<double> y(x.size()), expected = layer.top().DiffAsDouble();
    for (size_t i = 0; i < x.size(); ++i) {
      y[i] = std::pow(base, c.shift + c.scale * x[i]);
      expected[i] *= y[i] * c.scale * std::log(base);
    }
    ExpectNear(layer.Top(), y, Tolerance(type), "y");
    ExpectNear(layer.BottomDiff(0), expected, Tolerance(type), "dE/dx");

    const InPlaceResult in_place = RunInPlace(layer);
    EXPECT_EQ(in_place.data, layer.Top());
    EXPECT_EQ(in_place.diff, layer.BottomDiff(0));
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExpLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

// Float results are compared bit for bit: nothing of a vendor's library takes part.
TEST(ExpLayerBitsTest, AreTheSameOnEveryDevice) {
  const std::vector<double> x = Range(-100, 88, 100003);
  std::vector<double> expected;
  for (Device* device : TestDevices()) {
    LayerTester layer("type: 'Exp'", device, TypeTriple::Equal(kFloat), {{100003}});
    layer.SetBottom(0, x);
    layer.Forward();
    if (expected.empty()) expected = layer.Top();
    EXPECT_EQ(layer.Top(), expected) << device->info().id;
  }
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(expected[i], std::exp(x[i]), 2e-7 * std::exp(x[i]) + 1e-45) << x[i];
  }
}

TEST(ExpLayerGradientTest, AgreesWithDifferences) {
  for (const Case& c : kCases) {
    LayerTester layer(ExpText(c.base, c.scale, c.shift), Runtime::Get().cpu(),
                      TypeTriple::Equal(kDouble), {{2, 3, 4}});
    layer.CheckGradient();
  }
}

TEST(ExpLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto make = [](const std::string& text) {
    LayerTester(text, Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{4}});
  };
  EXPECT_NO_THROW(make(ExpText(0.1, 1, 0)));
  EXPECT_THROW(make(ExpText(0, 1, 0)), Error);
  EXPECT_THROW(make(ExpText(-2, 1, 0)), Error);
  EXPECT_THROW(make(ExpText(INFINITY, 1, 0)), Error);
  EXPECT_THROW(make(ExpText(NAN, 1, 0)), Error);
  EXPECT_THROW(make(ExpText(10, 1, 1000)), Error) << "10^1000";
}

}  // namespace
}  // namespace caffe

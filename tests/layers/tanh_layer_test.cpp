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

class TanHLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(TanHLayerTest, ForwardAndBackward) {
  const auto [device, type] = GetParam();
  LayerTester layer("type: 'TanH'", device, TypeTriple::Equal(type), {{2, 3, 5, 7}});
  std::vector<double> x = layer.Bottom(0);
  for (double& value : x) value *= 4;
  x[0] = 0;
  x[1] = 100;
  x[2] = -100;
  layer.SetBottom(0, x);
  layer.Forward();
  std::vector<double> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = std::tanh(x[i]);
  ExpectNear(layer.Top(), y, Tolerance(type), "y");
  EXPECT_EQ(layer.Top()[0], 0);
  EXPECT_EQ(layer.Top()[1], 1);
  EXPECT_EQ(layer.Top()[2], -1);
  layer.RandomTopDiff();
  layer.Backward();
  std::vector<double> expected = layer.top().DiffAsDouble();
  for (size_t i = 0; i < x.size(); ++i) expected[i] *= 1 - y[i] * y[i];
  ExpectNear(layer.BottomDiff(0), expected, Tolerance(type), "dE/dx");

  const InPlaceResult in_place = RunInPlace(layer);
  EXPECT_EQ(in_place.data, layer.Top());
  EXPECT_EQ(in_place.diff, layer.BottomDiff(0));
}

INSTANTIATE_TEST_SUITE_P(All, TanHLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

// Float results are compared bit for bit: nothing of a vendor's library takes part.
TEST(TanHLayerBitsTest, AreTheSameOnEveryDevice) {
  const std::vector<double> x = Range(-10, 10, 100003);
  std::vector<double> expected;
  for (Device* device : TestDevices()) {
    LayerTester layer("type: 'TanH'", device, TypeTriple::Equal(kFloat), {{100003}});
    layer.SetBottom(0, x);
    layer.Forward();
    if (expected.empty()) expected = layer.Top();
    EXPECT_EQ(layer.Top(), expected) << device->info().id;
  }
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(expected[i], std::tanh(x[i]), 2e-7 * std::abs(std::tanh(x[i]))) << x[i];
  }
}

TEST(TanHLayerGradientTest, AgreesWithDifferences) {
  LayerTester layer("type: 'TanH'", Runtime::Get().cpu(), TypeTriple::Equal(kDouble),
                    {{2, 3, 4, 5}});
  layer.CheckGradient();
}

TEST(TanHLayerShapeTest, RefusesWhatDoesNotFit) {
  EXPECT_THROW(
      LayerTester("type: 'TanH'", Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{2}, {2}}),
      Error);
  EXPECT_THROW(LayerTester("type: 'TanH'", Runtime::Get().cpu(), TypeTriple::Equal(kQuant8), {{2}}),
               Error);
}

}  // namespace
}  // namespace caffe

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

std::string LogText(double base, double scale, double shift) {
  return Concat("type: 'Log' log_param { base: ", base, " scale: ", scale, " shift: ", shift, " }");
}

struct Case {
  double base, scale, shift;
};
const Case kCases[] = {{-1, 1, 2}, {-1, 2, 4}, {2, 1, 1.5}, {10, 0.5, 1}, {0.5, -3, 5}};

class LogLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(LogLayerTest, ForwardAndBackward) {
  const auto [device, type] = GetParam();
  for (const Case& c : kCases) {
    LayerTester layer(LogText(c.base, c.scale, c.shift), device, TypeTriple::Equal(type),
                      {{2, 3, 5, 7}});
    layer.Forward();
    layer.RandomTopDiff();
    layer.Backward();
    const double log_base = c.base == -1 ? 1 : std::log(c.base);
    const std::vector<double> x = layer.Bottom(0);
    std::vector<double> y(x.size()), expected = layer.top().DiffAsDouble();
    for (size_t i = 0; i < x.size(); ++i) {
      const double u = c.shift + c.scale * x[i];
      y[i] = std::log(u) / log_base;
      expected[i] *= c.scale / (u * log_base);
    }
    ExpectNear(layer.Top(), y, Tolerance(type), "y");
    ExpectNear(layer.BottomDiff(0), expected, Tolerance(type), "dE/dx");

    const InPlaceResult in_place = RunInPlace(layer);
    EXPECT_EQ(in_place.data, layer.Top());
    EXPECT_EQ(in_place.diff, layer.BottomDiff(0));
  }
}

TEST_P(LogLayerTest, EndsOfTheRange) {
  const auto [device, type] = GetParam();
  LayerTester layer("type: 'Log'", device, TypeTriple::Equal(type), {{3}});
  layer.SetBottom(0, {0, -1, 1});
  layer.Forward();
  EXPECT_EQ(layer.Top()[0], -INFINITY);
  EXPECT_TRUE(std::isnan(layer.Top()[1]));
  EXPECT_EQ(layer.Top()[2], 0);
}

INSTANTIATE_TEST_SUITE_P(All, LogLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

// Float results are compared bit for bit: nothing of a vendor's library takes part.
TEST(LogLayerBitsTest, AreTheSameOnEveryDevice) {
  const std::vector<double> x = Range(1e-3, 1000, 100003);
  std::vector<double> expected;
  for (Device* device : TestDevices()) {
    LayerTester layer("type: 'Log'", device, TypeTriple::Equal(kFloat), {{100003}});
    layer.SetBottom(0, x);
    layer.Forward();
    if (expected.empty()) expected = layer.Top();
    EXPECT_EQ(layer.Top(), expected) << device->info().id;
  }
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(expected[i], std::log(x[i]), 2e-7 * std::abs(std::log(x[i])) + 1e-12) << x[i];
  }
}

TEST(LogLayerGradientTest, AgreesWithDifferences) {
  for (const Case& c : kCases) {
    LayerTester layer(LogText(c.base, c.scale, c.shift), Runtime::Get().cpu(),
                      TypeTriple::Equal(kDouble), {{2, 3, 4}});
    layer.CheckGradient();
  }
}

TEST(LogLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto make = [](const std::string& text) {
    LayerTester(text, Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{4}});
  };
  EXPECT_NO_THROW(make(LogText(0.1, 1, 2)));
  EXPECT_THROW(make(LogText(0, 1, 2)), Error);
  EXPECT_THROW(make(LogText(1, 1, 2)), Error) << "ln 1 is 0";
  EXPECT_THROW(make(LogText(-2, 1, 2)), Error);
  EXPECT_THROW(make(LogText(NAN, 1, 2)), Error);
}

// What a net that is never trained does not pay for.
TEST(LogLayerCopyTest, IsMadeForAGradientOnly) {
  Device* cpu = Runtime::Get().cpu();
  LayerTester layer("type: 'Log' log_param { shift: 2 }", cpu, TypeTriple::Equal(kFloat), {{4}});
  const BlobVec blob{&layer.bottom()};
  layer.Forward();
  cpu->ResetCounters();
  layer.layer().Forward(blob, blob);
  EXPECT_EQ(cpu->counters().copies, 1);
  layer.layer().set_need_backward(false);
  cpu->ResetCounters();
  layer.layer().Forward(blob, blob);
  EXPECT_EQ(cpu->counters().copies, 0);
}

}  // namespace
}  // namespace caffe

#include <gtest/gtest.h>

#include <limits>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

class EuclideanLossLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(EuclideanLossLayerTest, ForwardAndBackward) {
  const auto [device, type] = GetParam();
  // The second shape needs sums of sums.
  for (const Shape& shape : {Shape{5, 3, 4}, Shape{700, 600}}) {
    LayerTester layer("type: 'EuclideanLoss'", device, TypeTriple::Equal(type), {shape, shape});
    layer.Forward();
    EXPECT_EQ(layer.top().shape(), Shape());
    const std::vector<double> a = layer.Bottom(0), b = layer.Bottom(1);
    double loss = 0;
    for (size_t i = 0; i < a.size(); ++i) loss += (a[i] - b[i]) * (a[i] - b[i]) / 2 / shape[0];
    ExpectNear(layer.Top(), {loss}, Tolerance(type), "loss");
    layer.SetTopDiff(0, {3});
    layer.Backward();
    std::vector<double> expected(a.size());
    for (size_t i = 0; i < a.size(); ++i) expected[i] = 3 * (a[i] - b[i]) / shape[0];
    ExpectNear(layer.BottomDiff(0), expected, Tolerance(type), "dE/da");
    for (double& value : expected) value = -value;
    ExpectNear(layer.BottomDiff(1), expected, Tolerance(type), "dE/db");
  }
}

TEST_P(EuclideanLossLayerTest, AGivenDivisorStandsForTheItems) {
  const auto [device, type] = GetParam();
  for (const auto& [more, divisor] :
       {std::pair{"normalization: PRE_FIXED pre_fixed_normalizer: 8", 8.},
        {"", 2.},
        {"normalization: NONE", 2.}}) {
    LayerTester layer(Concat("type: 'EuclideanLoss' loss_param { ", more, " }"), device,
                      TypeTriple::Equal(type), {{2, 2}, {2, 2}});
    layer.SetBottom(0, {1, 2, 3, 4});
    layer.SetBottom(1, {0, 0, 0, 0});
    layer.Forward();
    ExpectNear(layer.Top(), {30 / 2. / divisor}, Tolerance(type), more);
    layer.SetTopDiff(0, {1});
    layer.Backward();
    ExpectNear(layer.BottomDiff(0), {1 / divisor, 2 / divisor, 3 / divisor, 4 / divisor},
               Tolerance(type), more);
  }
}

// A NaN in the terms of an earlier, larger batch does not mark an invalid term.
TEST_P(EuclideanLossLayerTest, ANanIsForgotten) {
  const auto [device, type] = GetParam();
  LayerTester layer("type: 'EuclideanLoss'", device, TypeTriple::Equal(type), {{2, 128}, {2, 128}});
  layer.SetBottom(0, std::vector<double>(256, std::numeric_limits<double>::quiet_NaN()));
  layer.Forward();
  for (int i = 0; i < 2; ++i) {
    layer.bottom(i).Reshape({2, 64});
    layer.SetBottom(i, TestNumbers(128, 4));
  }
  layer.Forward();
  EXPECT_EQ(layer.Top(), std::vector<double>({0}));
}

INSTANTIATE_TEST_SUITE_P(All, EuclideanLossLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(EuclideanLossLayerGradientTest, AgreesWithDifferences) {
  LayerTester layer("type: 'EuclideanLoss'", Runtime::Get().cpu(), TypeTriple::Equal(kDouble),
                    {{3, 2, 5}, {3, 10}});
  layer.CheckGradient();
}

TEST(EuclideanLossLayerShapeTest, RefusesUnequalCounts) {
  const auto make = [](const Shape& b) {
    LayerTester("type: 'EuclideanLoss'", Runtime::Get().cpu(), TypeTriple::Equal(kFloat),
                {{2, 6}, b});
  };
  EXPECT_THROW(make({3, 4}), Error);
  EXPECT_THROW(make({2, 5}), Error);
  EXPECT_NO_THROW(make({2, 3, 2}));
}

}  // namespace
}  // namespace caffe

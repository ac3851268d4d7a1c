#include <gtest/gtest.h>

#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

class FlattenLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(FlattenLayerTest, KeepsElementsAndGradients) {
  const auto [device, type] = GetParam();
  LayerTester flatten("type: 'Flatten'", device, TypeTriple::Equal(type), {{2, 3, 4, 5}});
  flatten.Forward();
  EXPECT_EQ(flatten.top().shape(), (Shape{2, 60}));
  EXPECT_EQ(flatten.Top(), flatten.Bottom(0));
  flatten.RandomTopDiff();
  flatten.Backward();
  EXPECT_EQ(flatten.BottomDiff(0), flatten.top().DiffAsDouble());
}

INSTANTIATE_TEST_SUITE_P(All, FlattenLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(FlattenLayerShapeTest, TakesAxes) {
  Device* cpu = Runtime::Get().cpu();
  const auto shape = [&](const char* axes) {
    LayerTester flatten(Concat("type: 'Flatten' flatten_param { ", axes, " }"), cpu,
                        TypeTriple::Equal(kFloat), {{2, 3, 4, 5}});
    return flatten.top().shape();
  };
  EXPECT_EQ(shape("axis: 0"), (Shape{120}));
  EXPECT_EQ(shape("axis: 1 end_axis: -2"), (Shape{2, 12, 5}));
  EXPECT_EQ(shape("axis: 2 end_axis: 2"), (Shape{2, 3, 4, 5}));
  EXPECT_THROW(shape("axis: 3 end_axis: 1"), Error);
  EXPECT_THROW(shape("axis: 4"), Error);
}

TEST(FlattenLayerGradientTest, AgreesWithDifferences) {
  LayerTester flatten("type: 'Flatten'", Runtime::Get().cpu(), TypeTriple::Equal(kDouble),
                      {{2, 3, 2}});
  flatten.CheckGradient();
}

}  // namespace
}  // namespace caffe

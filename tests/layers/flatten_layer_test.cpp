#include <gtest/gtest.h>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

LayerTester MakeFlatten(const std::string& more, Device* device = Runtime::Get().cpu(),
                        DataType type = kFloat) {
  return LayerTester("type: 'Flatten' flatten_param { " + more + " }", device,
                     TypeTriple::Equal(type), {{2, 3, 4, 5}});
}

class FlattenLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(FlattenLayerTest, SharesDataAndDiff) {
  const auto [device, type] = GetParam();
  LayerTester layer = MakeFlatten("", device, type);
  layer.bottom().device_data();
  device->ResetCounters();
  layer.Forward();
  EXPECT_EQ(device->counters().launches + device->counters().copies, 0);
  EXPECT_EQ(layer.top().shape(), Shape({2, 60}));
  EXPECT_EQ(layer.Top(), layer.Bottom(0));
  layer.RandomTopDiff();
  layer.Backward();
  EXPECT_EQ(layer.BottomDiff(0), layer.top().DiffAsDouble());
}

INSTANTIATE_TEST_SUITE_P(All, FlattenLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(FlattenLayerShapeTest, Axes) {
  EXPECT_EQ(MakeFlatten("axis: 0").top().shape(), Shape({120}));
  EXPECT_EQ(MakeFlatten("end_axis: 2").top().shape(), Shape({2, 12, 5}));
  EXPECT_EQ(MakeFlatten("axis: 0 end_axis: -2").top().shape(), Shape({24, 5}));
  EXPECT_EQ(MakeFlatten("axis: -1").top().shape(), Shape({2, 3, 4, 5}));
  EXPECT_THROW(MakeFlatten("axis: 2 end_axis: 1"), Error);
  EXPECT_THROW(MakeFlatten("axis: 4"), Error);
}

TEST(FlattenLayerGradientTest, AgreesWithDifferences) {
  LayerTester layer = MakeFlatten("", Runtime::Get().cpu(), kDouble);
  layer.CheckGradient();
}

}  // namespace
}  // namespace caffe

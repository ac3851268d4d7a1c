#include <gtest/gtest.h>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

class SplitLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(SplitLayerTest, SharesDataAndAddsDiffs) {
  const auto [device, type] = GetParam();
  for (int tops : {1, 2, 4}) {
    LayerTester layer("type: 'Split'", device, TypeTriple::Equal(type), {{3, 5}}, tops);
    const std::vector<double> x = layer.Bottom(0);
    layer.bottom().device_data();
    device->ResetCounters();
    layer.Forward();
    EXPECT_EQ(device->counters().launches + device->counters().copies, 0);
    std::vector<double> expected(15);
    for (int i = 0; i < tops; ++i) {
      EXPECT_EQ(layer.Top(i), x);
      EXPECT_EQ(layer.top(i).data_memory(), layer.bottom().data_memory());
      layer.RandomTopDiff(i);
      const std::vector<double> diff = layer.top(i).DiffAsDouble();
      for (int j = 0; j < 15; ++j) expected[j] += diff[j];
    }
    layer.Backward();
    ExpectNear(layer.BottomDiff(0), expected, Tolerance(type), "dE/dx");
  }
}

TEST_P(SplitLayerTest, FollowsItsBottom) {
  const auto [device, type] = GetParam();
  LayerTester layer("type: 'Split'", device, TypeTriple::Equal(type), {{2}}, 2);
  layer.bottom().Reshape({1, 3});
  layer.SetBottom(0, {1, 2, 3});
  layer.Forward();
  EXPECT_EQ(layer.top(1).shape(), Shape({1, 3}));
  EXPECT_EQ(layer.Top(1), std::vector<double>({1, 2, 3}));
}

INSTANTIATE_TEST_SUITE_P(All, SplitLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(SplitLayerGradientTest, AgreesWithDifferences) {
  LayerTester layer("type: 'Split'", Runtime::Get().cpu(), TypeTriple::Equal(kDouble), {{2, 3}}, 3);
  layer.CheckGradient();
}

TEST(SplitLayerQuantizedTest, SharesCodesAndRange) {
  LayerTester layer("type: 'Split'", Runtime::Get().cpu(), TypeTriple::Equal(kQuant8), {{2}}, 2);
  layer.bottom().set_range({0.5, 3, true});
  static_cast<uint8_t*>(layer.bottom().mutable_host_data())[1] = 77;
  layer.Forward();
  EXPECT_EQ(static_cast<const uint8_t*>(layer.top(1).host_data())[1], 77);
  EXPECT_EQ(layer.top(1).range().scale, 0.5);
  EXPECT_EQ(layer.top(1).range().zero, 3);
  EXPECT_THROW(layer.Backward(), Error);
}

}  // namespace
}  // namespace caffe

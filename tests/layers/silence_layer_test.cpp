#include <gtest/gtest.h>

#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

class SilenceLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(SilenceLayerTest, GradientsAreZero) {
  const auto [device, type] = GetParam();
  LayerTester layer("type: 'Silence'", device, TypeTriple::Equal(type), {{3}, {2, 5}}, 0);
  layer.bottom(0).SetDiff({1, 2, 3});
  layer.bottom(1).SetDiff(std::vector<double>(10, 4));
  layer.Forward();
  layer.Backward();
  EXPECT_EQ(layer.BottomDiff(0), std::vector<double>(3, 0));
  EXPECT_EQ(layer.BottomDiff(1), std::vector<double>(10, 0));
}

INSTANTIATE_TEST_SUITE_P(All, SilenceLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

#include <gtest/gtest.h>

#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

class SilenceLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(SilenceLayerTest, HasNoGradient) {
  const auto [device, type] = GetParam();
  LayerTester silence("type: 'Silence'", device, TypeTriple::Equal(type), {{2, 3}, {4}}, 0);
  silence.Forward();
  for (int i : {0, 1}) {
    silence.bottom(i).SetDiff(std::vector<double>(silence.bottom(i).count(), 1));
  }
  silence.Backward();
  EXPECT_EQ(silence.BottomDiff(0), std::vector<double>(6, 0));
  EXPECT_EQ(silence.BottomDiff(1), std::vector<double>(4, 0));
}

INSTANTIATE_TEST_SUITE_P(All, SilenceLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

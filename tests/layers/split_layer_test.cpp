#include <gtest/gtest.h>

#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

class SplitLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(SplitLayerTest, SharesDataAndAddsGradients) {
  const auto [device, type] = GetParam();
  for (int tops : {1, 2, 3}) {
    LayerTester split("type: 'Split'", device, TypeTriple::Equal(type), {{3, 5, 7}}, tops);
    split.Forward();
    std::vector<double> sum(split.bottom().count(), 0);
    for (int i = 0; i < tops; ++i) {
      EXPECT_EQ(split.top(i).data_memory(), split.bottom().data_memory());
      EXPECT_EQ(split.Top(i), split.Bottom(0));
      split.RandomTopDiff(i);
      const std::vector<double> diff = split.top(i).DiffAsDouble();
      for (size_t j = 0; j < sum.size(); ++j) sum[j] += diff[j];
    }
    split.Backward();
    ExpectNear(split.BottomDiff(0), sum, Tolerance(type), "dE/dx");
  }
}

INSTANTIATE_TEST_SUITE_P(All, SplitLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(SplitLayerGradientTest, AgreesWithDifferences) {
  LayerTester split("type: 'Split'", Runtime::Get().cpu(), TypeTriple::Equal(kDouble), {{2, 3}}, 3);
  split.CheckGradient();
}

}  // namespace
}  // namespace caffe

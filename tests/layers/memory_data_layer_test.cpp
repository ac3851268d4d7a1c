#include "caffe/layers/memory_data_layer.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

class MemoryDataLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(MemoryDataLayerTest, GivesBatchesInOrder) {
  const auto [device, type] = GetParam();
  LayerTester tester(
      "type: 'MemoryData' memory_data_param { batch_size: 2 channels: 1 height: 2 width: 3 }",
      device, TypeTriple::Equal(type), {}, 2);
  EXPECT_THROW(tester.Forward(), Error);
  std::vector<float> data(24), labels{0, 1, 2, 3};
  std::iota(data.begin(), data.end(), 0.f);
  auto& layer = dynamic_cast<MemoryData&>(tester.layer());
  layer.Reset(data.data(), labels.data(), 4);
  for (int first : {0, 2, 0}) {
    tester.Forward();
    std::vector<double> expected(12);
    std::iota(expected.begin(), expected.end(), first * 6.0);
    EXPECT_EQ(tester.Top(0), expected);
    EXPECT_EQ(tester.Top(1), (std::vector<double>{first + 0.0, first + 1.0}));
  }
  EXPECT_THROW(layer.Reset(data.data(), labels.data(), 3), Error);
}

INSTANTIATE_TEST_SUITE_P(All, MemoryDataLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

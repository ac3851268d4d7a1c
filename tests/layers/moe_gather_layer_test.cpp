#include <gtest/gtest.h>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/codes.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

// Two experts per item; item 1 has only one, since the other is full.
const std::vector<double> kRows{0, 4, 3, 1, 5, -1}, kSlots{0, 3, -1, 2, 1, 4};

LayerTester Gather(Device* device, DataType type, int64_t columns = 2) {
  LayerTester layer("type: 'MOEGather'", device, TypeTriple::Equal(type),
                    {{3, 2, columns}, {6}, {3, 2}});
  layer.SetBottom(1, kRows);
  layer.SetBottom(2, kSlots);
  return layer;
}

class MOEGatherLayerTest : public testing::TestWithParam<DeviceType> {};

// Rows of 4 elements, and ones of whole vectors of 16 bytes.
TEST_P(MOEGatherLayerTest, CopiesRows) {
  const auto [device, type] = GetParam();
  for (const int64_t columns : {2, 8, 40}) {
    LayerTester layer = Gather(device, type, columns);
    layer.Forward();
    EXPECT_EQ(layer.top().shape(), (Shape{6, 2, columns}));
    const std::vector<double> x = layer.Bottom(0);
    std::vector<double> expected;
    for (const double pair : kRows) {
      for (int64_t c = 0; c < 2 * columns; ++c) {
        expected.push_back(pair < 0 ? 0 : x[static_cast<int64_t>(pair) / 2 * 2 * columns + c]);
      }
    }
    EXPECT_EQ(layer.Top(), expected);
  }
}

TEST_P(MOEGatherLayerTest, Backward) {
  const auto [device, type] = GetParam();
  LayerTester layer = Gather(device, type);
  layer.Forward();
  layer.RandomTopDiff();
  layer.Backward();
  const std::vector<double> d = layer.top().DiffAsDouble();
  std::vector<double> expected(12);
  for (size_t pair = 0; pair < 6; ++pair) {
    for (size_t c = 0; c < 4; ++c) {
      if (kSlots[pair] >= 0) {
        expected[pair / 2 * 4 + c] += d[static_cast<size_t>(kSlots[pair]) * 4 + c];
      }
    }
  }
  ExpectNear(layer.BottomDiff(0), expected, Tolerance(type), "dE/dx");
}

INSTANTIATE_TEST_SUITE_P(All, MOEGatherLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

class QuantizedMOEGatherLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(QuantizedMOEGatherLayerTest, CarriesCodesAndRange) {
  const auto [device, type] = GetParam();
  for (const int64_t columns : {2, 8}) {
    LayerTester layer = Gather(device, type, columns);
    const std::vector<int64_t> codes = TestCodes(layer.bottom().count(), type);
    SetCodesOf(&layer.bottom(), codes);
    layer.bottom().set_range({0.3, 99, true});
    layer.Forward();
    EXPECT_EQ(layer.top().range().scale, 0.3);
    std::vector<int64_t> expected;
    for (const double pair : kRows) {
      for (int64_t c = 0; c < 2 * columns; ++c) {
        expected.push_back(pair < 0 ? 99 : codes[static_cast<int64_t>(pair) / 2 * 2 * columns + c]);
      }
    }
    EXPECT_EQ(CodesOf(layer.top()), expected) << "rows without a pair hold the zero point";
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedMOEGatherLayerTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

TEST(MOEGatherErrorTest, OtherNumberOfItems) {
  EXPECT_THROW(LayerTester("type: 'MOEGather'", Runtime::Get().cpu(), TypeTriple::Equal(kFloat),
                           {{4, 2}, {6}, {3, 2}}),
               Error);
}

}  // namespace
}  // namespace caffe

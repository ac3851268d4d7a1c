#include <gtest/gtest.h>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/data_error.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

class PickLayerTest : public testing::TestWithParam<DeviceType> {};

LayerTester MakePick(Device* device, DataType type, const std::vector<double>& index) {
  LayerTester layer("type: 'Pick'", device, TypeTriple::Equal(type), {{3, 4}, {3}});
  layer.SetBottom(1, index);
  return layer;
}

TEST_P(PickLayerTest, ForwardAndBackward) {
  const auto [device, type] = GetParam();
  LayerTester layer = MakePick(device, type, {2, 0, 3});
  layer.Forward();
  const std::vector<double> x = layer.Bottom(0);
  EXPECT_EQ(layer.Top(), (std::vector<double>{x[2], x[4], x[11]}));
  layer.SetTopDiff(0, {1, -2, 0.5});
  layer.Backward();
  EXPECT_EQ(layer.BottomDiff(0), (std::vector<double>{0, 0, 1, 0, -2, 0, 0, 0, 0, 0, 0, 0.5}));
}

TEST_P(PickLayerTest, AnIndexThatIsNoColumnIsNamed) {
  const auto [device, type] = GetParam();
  for (const double wrong : {4.0, -1.0, 0.5}) {
    LayerTester layer = MakePick(device, type, {2, wrong, -7});
    ExpectDataError(&layer, Concat("tested (Pick): the index of item 1 is ", wrong,
                                   ", not a whole number in [0, 4)"));
  }
}

INSTANTIATE_TEST_SUITE_P(All, PickLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

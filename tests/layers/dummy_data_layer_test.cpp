#include <gtest/gtest.h>

#include <algorithm>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

LayerTester MakeDummy(const std::string& more, int tops, Device* device = Runtime::Get().cpu(),
                      DataType type = kFloat, uint64_t seed = 3) {
  return LayerTester("type: 'DummyData' dummy_data_param { " + more + " }", device,
                     TypeTriple::Equal(type), {}, tops, seed);
}

class DummyDataLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(DummyDataLayerTest, RefillsWhatIsNotConstant) {
  const auto [device, type] = GetParam();
  LayerTester layer = MakeDummy(
      "shape { dim: 3 dim: 50 } shape { dim: 4 } data_filler { type: 'uniform' min: 2 max: 3 } "
      "data_filler { value: 7.5 }",
      2, device, type);
  EXPECT_EQ(layer.top(0).shape(), Shape({3, 50}));
  EXPECT_EQ(layer.Top(1), std::vector<double>(4, 7.5));  // from the start
  layer.Forward();
  const std::vector<double> first = layer.Top(0);
  EXPECT_GE(*std::min_element(first.begin(), first.end()), 2);
  EXPECT_LE(*std::max_element(first.begin(), first.end()), 3);
  EXPECT_NE(first, std::vector<double>(150, first[0]));
  EXPECT_EQ(layer.Top(1), std::vector<double>(4, 7.5));
  layer.top(1).SetData({1, 2, 3, 4});  // the caller's values stay
  layer.Forward();
  EXPECT_NE(layer.Top(0), first);
  EXPECT_EQ(layer.Top(1), std::vector<double>({1, 2, 3, 4}));
}

INSTANTIATE_TEST_SUITE_P(All, DummyDataLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(DummyDataLayerOptionsTest, OneForAllAndOlderExtents) {
  LayerTester zeros = MakeDummy("shape { dim: 2 }", 3);
  zeros.Forward();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(zeros.Top(i), std::vector<double>(2, 0));
  LayerTester old = MakeDummy(
      "num: 2 num: 3 channels: 1 height: 4 width: 5 width: 6 data_filler { type: 'gaussian' }", 2);
  EXPECT_EQ(old.top(0).shape(), Shape({2, 1, 4, 5}));
  EXPECT_EQ(old.top(1).shape(), Shape({3, 1, 4, 6}));
  old.Forward();
  const std::vector<double> first = old.Top(0), other = old.Top(1);
  EXPECT_FALSE(std::equal(first.begin(), first.end(), other.begin()));
}

TEST(DummyDataLayerOptionsTest, SeedsRepeat) {
  const auto run = [](uint64_t seed) {
    LayerTester layer = MakeDummy("shape { dim: 20 } data_filler { type: 'gaussian' }", 1,
                                  Runtime::Get().cpu(), kFloat, seed);
    layer.Forward();
    layer.Forward();
    return layer.Top();
  };
  EXPECT_EQ(run(5), run(5));
  EXPECT_NE(run(5), run(6));
}

TEST(DummyDataLayerOptionsTest, GoesOnWhereItWas) {
  const auto make = [](uint64_t seed) {
    return MakeDummy("shape { dim: 20 } data_filler { type: 'gaussian' }", 1, Runtime::Get().cpu(),
                     kFloat, seed);
  };
  LayerTester first = make(1), second = make(2);
  for (int i = 0; i < 3; ++i) first.Forward();
  second.layer().SetRunState(1, first.layer().RunState());
  for (int i = 0; i < 3; ++i) {
    first.Forward();
    second.Forward();
    EXPECT_EQ(first.Top(), second.Top());
  }
}

TEST(DummyDataLayerOptionsTest, ConstantsSurviveAMove) {
  LayerTester layer = MakeDummy("shape { dim: 2 } data_filler { value: 3 }", 1);
  layer.top().SetData({8, 9});
  BlobVec tops{&layer.top()};
  Device* device = TestDevices().back();
  layer.top().SetDevice(device);
  layer.layer().MoveToDevice(device, {}, tops);
  layer.layer().Forward({}, tops);
  EXPECT_EQ(layer.Top(), std::vector<double>({8, 9}));
}

TEST(DummyDataLayerErrorsTest, NameTheCounts) {
  const auto error = [](const std::string& more, int tops) {
    return ErrorOf([&] { MakeDummy(more, tops); });
  };
  EXPECT_TRUE(Holds(error("", 1), "tested (DummyData): shape must be given once or 1 times"));
  EXPECT_TRUE(Holds(error("shape {} shape {}", 3), "it is given 2 times"));
  EXPECT_TRUE(Holds(error("shape {} num: 1", 1), "either shape, or num"));
  EXPECT_TRUE(Holds(error("num: 1 channels: 1 height: 1", 1), "width must be given"));
  EXPECT_TRUE(Holds(error("shape {} data_filler {} data_filler {}", 3), "data_filler must be"));
  EXPECT_TRUE(Holds(error("shape { dim: -1 }", 1), "negative"));
  LayerTester unknown = MakeDummy("shape { dim: 1 } data_filler { type: 'odd' }", 1);
  EXPECT_TRUE(Holds(ErrorOf([&] { unknown.Forward(); }), "top top0: unknown filler 'odd'"));
}

}  // namespace
}  // namespace caffe

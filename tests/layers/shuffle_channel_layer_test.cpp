#include <gtest/gtest.h>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "io/temporary_folder.hpp"
#include "support/codes.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

LayerTester MakeShuffle(int group, const Shape& shape, Device* device = Runtime::Get().cpu(),
                        DataType type = kFloat) {
  return LayerTester(Concat("type: 'ShuffleChannel' shuffle_channel_param { group: ", group, " }"),
                     device, TypeTriple::Equal(type), {shape});
}

// Where element i of the top is in the bottom.
int64_t SourceOf(int64_t i, int64_t group, const Shape& shape) {
  const int64_t channels = shape[1], size = channels / group, plane = ShapeCount(shape, 2);
  const int64_t item = i / (channels * plane), channel = i / plane % channels;
  return (item * channels + channel % group * size + channel / group) * plane + i % plane;
}

const Shape kShapes[] = {{2, 6, 3, 5}, {1, 12}, {3, 6, 1, 1}, {2, 6, 2, 2, 2}, {0, 6, 2}};

class ShuffleChannelLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(ShuffleChannelLayerTest, ByHand) {
  const auto [device, type] = GetParam();
  LayerTester layer = MakeShuffle(2, {1, 6}, device, type);
  layer.SetBottom(0, {0, 1, 2, 3, 4, 5});
  layer.Forward();
  EXPECT_EQ(layer.Top(), (std::vector<double>{0, 3, 1, 4, 2, 5}));
  layer.SetTopDiff(0, {0, 1, 2, 3, 4, 5});
  layer.Backward();
  EXPECT_EQ(layer.BottomDiff(0), (std::vector<double>{0, 2, 4, 1, 3, 5}));
}

TEST_P(ShuffleChannelLayerTest, ForwardAndBackward) {
  const auto [device, type] = GetParam();
  for (const Shape& shape : kShapes) {
    for (const int group : {1, 2, 3, 6}) {
      LayerTester layer = MakeShuffle(group, shape, device, type);
      layer.Forward();
      ASSERT_EQ(layer.top().shape(), shape);
      layer.RandomTopDiff();
      layer.Backward();
      const std::vector<double> x = layer.Bottom(0), y = layer.Top();
      const std::vector<double> x_diff = layer.BottomDiff(0), y_diff = layer.top().DiffAsDouble();
      for (size_t i = 0; i < y.size(); ++i) {
        const int64_t source = SourceOf(static_cast<int64_t>(i), group, shape);
        ASSERT_EQ(y[i], x[source]) << "group " << group;
        ASSERT_EQ(y_diff[i], x_diff[source]) << "group " << group;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ShuffleChannelLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(ShuffleChannelLayerGradientTest, AgreesWithDifferences) {
  MakeShuffle(3, {2, 6, 2, 2}, Runtime::Get().cpu(), kDouble).CheckGradient();
}

TEST(ShuffleChannelLayerErrorsTest, NameTheValues) {
  EXPECT_TRUE(Holds(ErrorOf([] {
                      MakeShuffle(4, {2, 6});
                    }),
                    "tested (ShuffleChannel): 6 channels cannot be divided into 4 groups"));
  EXPECT_TRUE(Holds(ErrorOf([] { MakeShuffle(0, {2, 6}); }), "into 0 groups"));
  EXPECT_TRUE(Holds(ErrorOf([] { MakeShuffle(1, {6}); }), "needs a bottom of at least 2 axes"));
}

class QuantizedShuffleChannelLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(QuantizedShuffleChannelLayerTest, CarriesCodesAndRange) {
  const auto [device, type] = GetParam();
  const Shape shape{2, 6, 3, 5};
  LayerTester layer = MakeShuffle(3, shape, device, type);
  const std::vector<int64_t> codes = TestCodes(layer.bottom().count(), type);
  SetCodesOf(&layer.bottom(), codes);
  layer.bottom().set_range({0.3, 99, true});
  layer.Forward();
  EXPECT_EQ(layer.top().range().scale, 0.3);
  EXPECT_EQ(layer.top().range().zero, 99);
  const std::vector<int64_t> top = CodesOf(layer.top());
  for (size_t i = 0; i < top.size(); ++i) {
    ASSERT_EQ(top[i], codes[SourceOf(static_cast<int64_t>(i), 3, shape)]);
  }
  EXPECT_THROW(layer.Backward(), Error);
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedShuffleChannelLayerTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

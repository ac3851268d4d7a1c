#include <gtest/gtest.h>

#include <numeric>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/codes.hpp"
#include "support/data_error.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

std::string Text(int stride, bool reverse) {
  return Concat("type: 'Reorg' reorg_param { stride: ", stride, " reverse: ", reverse, " }");
}

// Darknet's loops: for each element of an array of the bottom's shape, that of the other array.
std::vector<int64_t> Others(const Shape& x, int64_t stride) {
  std::vector<int64_t> others;
  const int64_t parts = x[1] / (stride * stride);
  for (int64_t n = 0; n < x[0]; ++n) {
    for (int64_t k = 0; k < x[1]; ++k) {
      for (int64_t h = 0; h < x[2]; ++h) {
        for (int64_t w = 0; w < x[3]; ++w) {
          const int64_t c = k % parts, offset = k / parts;
          const int64_t column = w * stride + offset % stride, row = h * stride + offset / stride;
          others.push_back(column + x[3] * stride * (row + x[2] * stride * (c + parts * n)));
        }
      }
    }
  }
  return others;
}

class ReorgLayerTest : public testing::TestWithParam<DeviceType> {};

// Four channels of one row of two pixels; the other array has one channel of 2 x 4 pixels.
TEST_P(ReorgLayerTest, ByHand) {
  const auto [device, type] = GetParam();
  LayerTester layer(Text(2, true), device, TypeTriple::Equal(type), {{1, 4, 1, 2}});
  layer.SetBottom(0, {1, 2, 3, 4, 5, 6, 7, 8});
  layer.Forward();
  EXPECT_EQ(layer.top().shape(), Shape({1, 1, 2, 4}));
  EXPECT_EQ(layer.Top(), std::vector<double>({1, 3, 2, 4, 5, 7, 6, 8}));
}

TEST_P(ReorgLayerTest, AgreesWithTheDefinition) {
  const auto [device, type] = GetParam();
  for (const bool reverse : {false, true}) {
    for (const int stride : {1, 2, 3}) {
      const Shape shape{2, 2L * stride * stride, 2L * stride, 4L * stride};
      LayerTester layer(Text(stride, reverse), device, TypeTriple::Equal(type), {shape});
      layer.Forward();
      const std::vector<int64_t> others = Others(shape, stride);
      const std::vector<double> x = layer.Bottom(0);
      layer.RandomTopDiff();
      layer.Backward();
      const std::vector<double> d = layer.top().DiffAsDouble();
      std::vector<double> y(x.size()), x_diff(x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        const int64_t first = static_cast<int64_t>(i), second = others[i];
        y[reverse ? second : first] = x[reverse ? first : second];
        x_diff[reverse ? first : second] = d[reverse ? second : first];
      }
      EXPECT_EQ(layer.Top(), y) << Text(stride, reverse);
      EXPECT_EQ(layer.BottomDiff(0), x_diff) << Text(stride, reverse);
      const int64_t block = int64_t{stride} * stride;
      EXPECT_EQ(layer.top().shape(),
                reverse ? Shape({2, 2, shape[2] * stride, shape[3] * stride})
                        : Shape({2, shape[1] * block, shape[2] / stride, shape[3] / stride}));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReorgLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

class QuantizedReorgLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(QuantizedReorgLayerTest, CarriesCodesAndRange) {
  const auto [device, type] = GetParam();
  const Shape shape{2, 8, 4, 6};
  for (const bool reverse : {false, true}) {
    LayerTester layer(Text(2, reverse), device, TypeTriple::Equal(type), {shape});
    const std::vector<int64_t> codes = TestCodes(layer.bottom().count(), type);
    SetCodesOf(&layer.bottom(), codes);
    layer.bottom().set_range({0.3, 99, true});
    layer.Forward();
    EXPECT_EQ(layer.top().range().scale, 0.3);
    EXPECT_EQ(layer.top().range().zero, 99);
    const std::vector<int64_t> others = Others(shape, 2), top = CodesOf(layer.top());
    for (size_t i = 0; i < top.size(); ++i) {
      const int64_t first = static_cast<int64_t>(i), second = others[i];
      EXPECT_EQ(top[reverse ? second : first], codes[reverse ? first : second]) << reverse;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedReorgLayerTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

TEST(ReorgLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto message = [](const std::string& text, const Shape& shape) {
    return ErrorOf(
        [&] { LayerTester(text, Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {shape}); });
  };
  EXPECT_EQ(message(Text(2, false), {1, 4, 2, 2}), "");
  EXPECT_EQ(message(Text(0, false), {1, 4, 2, 2}), "tested (Reorg): stride must be positive");
  EXPECT_EQ(message(Text(2, false), {1, 4, 2}),
            "tested (Reorg): needs a bottom of 4 axes, not of shape 1 4 2 (8)");
  EXPECT_EQ(message(Text(2, true), {1, 6, 2, 2}),
            "tested (Reorg): stride 2 needs a multiple of 4 channels, but the bottom has shape "
            "1 6 2 2 (24)");
  EXPECT_EQ(message(Text(2, false), {1, 4, 3, 2}),
            "tested (Reorg): stride 2 needs a height and a width that are multiples of it, but the "
            "bottom has shape 1 4 3 2 (24)");
}

}  // namespace
}  // namespace caffe

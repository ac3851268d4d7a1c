#include <gtest/gtest.h>

#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/data_error.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

std::string UpsampleText(const std::string& parameters) {
  return "type: 'Upsample' upsample_param { " + parameters + " }";
}

struct Nearest {
  std::string text;
  Shape x, y;
};

std::vector<Nearest> NearestCases() {
  return {
      {"", {2, 3, 4, 5}, {2, 3, 8, 10}},
      {"scale: 3", {1, 2, 2, 1}, {1, 2, 6, 3}},
      {"scale: 1", {1, 2, 3, 3}, {1, 2, 3, 3}},
      {"scale_h: 1 scale_w: 4", {1, 2, 3, 2}, {1, 2, 3, 8}},
      // No multiple, and smaller.
      {"upsample_h: 7 upsample_w: 5", {1, 2, 3, 3}, {1, 2, 7, 5}},
      {"upsample_h: 2 upsample_w: 1", {1, 2, 5, 3}, {1, 2, 2, 1}},
  };
}

// A mask, and the size of what it points into.
struct Masked {
  std::string text;
  Shape x, y;
  std::vector<double> mask;
};

// The first mask is that of windows of 2 x 2, which do not overlap. The second one is that of
// windows of 3 x 3 with stride 2, which share elements. The third one is not that of a pooling:
// places are far away, several values have one place, and some values have none.
std::vector<Masked> MaskedCases() {
  Masked windows{"pad_out_w: true", {2, 2, 3, 4}, {2, 2, 6, 7}, {}};
  for (int64_t i = 0; i < 48; ++i) {
    const int64_t h = i / 4 % 3, w = i % 4, down = i % 5 < 2;
    const int64_t right = w < 3 && i % 3 == 0;
    windows.mask.push_back(static_cast<double>((2 * h + down) * 7 + 2 * w + right));
  }
  Masked overlapping{"upsample_h: 5 upsample_w: 5", {1, 2, 2, 2}, {1, 2, 5, 5}, {}};
  overlapping.mask = {12, 12, 12, 18, 6, 12, 10, 12};
  Masked scattered{"upsample_h: 3 upsample_w: 40", {2, 1, 4, 3}, {2, 1, 3, 40}, {}};
  scattered.mask = {119, 0,   5, -1, 119, 77, 40, 39, 0, -1, 1, 119,
                    0,   119, 0, 80, 2,   3,  4,  -1, 6, 7,  8, 60};
  return {windows, overlapping, scattered};
}

class UpsampleLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(UpsampleLayerTest, NearestNeighbours) {
  const auto [device, type] = GetParam();
  for (const Nearest& c : NearestCases()) {
    LayerTester layer(UpsampleText(c.text), device, TypeTriple::Equal(type), {c.x});
    layer.Forward();
    ASSERT_EQ(layer.top().shape(), c.y) << c.text;
    layer.RandomTopDiff();
    layer.Backward();
    const std::vector<double> x = layer.Bottom(0), d = layer.top().DiffAsDouble();
    std::vector<double> y(d.size()), x_diff(x.size());
    for (int64_t i = 0; i < static_cast<int64_t>(y.size()); ++i) {
      const int64_t w = i % c.y[3], h = i / c.y[3] % c.y[2], plane = i / c.y[3] / c.y[2];
      const int64_t from = (plane * c.x[2] + h * c.x[2] / c.y[2]) * c.x[3] + w * c.x[3] / c.y[3];
      y[i] = x[from];
      x_diff[from] += d[i];
    }
    EXPECT_EQ(layer.Top(), y) << c.text;
    ExpectNear(layer.BottomDiff(0), x_diff, Tolerance(type), "dE/dx of " + c.text);
  }
}

TEST_P(UpsampleLayerTest, ByHand) {
  const auto [device, type] = GetParam();
  LayerTester nearest(UpsampleText(""), device, TypeTriple::Equal(type), {{1, 1, 1, 2}});
  nearest.SetBottom(0, {3, -5});
  nearest.Forward();
  EXPECT_EQ(nearest.Top(), std::vector<double>({3, 3, -5, -5, 3, 3, -5, -5}));
  nearest.SetTopDiff(0, {1, 2, 3, 4, 5, 6, 7, 8});
  nearest.Backward();
  EXPECT_EQ(nearest.BottomDiff(0), std::vector<double>({14, 22}));
  LayerTester masked(UpsampleText(""), device, TypeTriple::Equal(type),
                     {{1, 1, 1, 2}, {1, 1, 1, 2}});
  masked.SetBottom(0, {3, -5});
  masked.SetBottom(1, {4, 3});
  masked.Forward();
  EXPECT_EQ(masked.Top(), std::vector<double>({0, 0, 0, -5, 3, 0, 0, 0}));
  masked.SetTopDiff(0, {1, 2, 3, 4, 5, 6, 7, 8});
  masked.Backward();
  EXPECT_EQ(masked.BottomDiff(0), std::vector<double>({5, 4}));
}

TEST_P(UpsampleLayerTest, Mask) {
  const auto [device, type] = GetParam();
  for (const Masked& c : MaskedCases()) {
    LayerTester layer(UpsampleText(c.text), device, TypeTriple::Equal(type), {c.x, c.x});
    layer.SetBottom(1, c.mask);
    layer.Forward();
    ASSERT_EQ(layer.top().shape(), c.y) << c.text;
    layer.RandomTopDiff();
    layer.Backward();
    const std::vector<double> x = layer.Bottom(0), d = layer.top().DiffAsDouble();
    std::vector<double> y(d.size()), x_diff(x.size());
    std::vector<int64_t> from(d.size(), -1);
    for (size_t i = 0; i < x.size(); ++i) {
      const int64_t plane = static_cast<int64_t>(i) / (c.x[2] * c.x[3]);
      if (c.mask[i] < 0) continue;
      from[plane * c.y[2] * c.y[3] + static_cast<int64_t>(c.mask[i])] = static_cast<int64_t>(i);
    }
    for (size_t i = 0; i < y.size(); ++i) {
      if (from[i] < 0) continue;
      y[i] = x[from[i]];
      x_diff[from[i]] = d[i];
    }
    EXPECT_EQ(layer.Top(), y) << c.text;
    EXPECT_EQ(layer.BottomDiff(0), x_diff) << c.text;
  }
}

// Places above 2048 are not all numbers of half.
TEST_P(UpsampleLayerTest, LargeImages) {
  const auto [device, type] = GetParam();
  LayerTester layer(UpsampleText(""), device, TypeTriple::Equal(type),
                    {{1, 1, 60, 61}, {1, 1, 60, 61}});
  std::vector<double> mask(60 * 61);
  for (int64_t i = 0; i < 60 * 61; ++i) {
    mask[i] = static_cast<double>((i / 61 * 2 + i % 2) * 122 + i % 61 * 2 + i / 2 % 2);
  }
  layer.SetBottom(1, mask);
  layer.Forward();
  std::vector<double> y(120 * 122);
  const std::vector<double> x = layer.Bottom(0);
  for (size_t i = 0; i < x.size(); ++i) y[static_cast<size_t>(mask[i])] = x[i];
  EXPECT_EQ(layer.Top(), y);
}

TEST_P(UpsampleLayerTest, MaskOutsideTheImage) {
  const auto [device, type] = GetParam();
  for (const double place : {8.0, 1e30, std::nan("")}) {
    LayerTester layer(UpsampleText(""), device, TypeTriple::Equal(type),
                      {{1, 3, 1, 2}, {1, 3, 1, 2}});
    layer.SetBottom(1, {0, 7, 1, place, 9, 0});
    ExpectDataError(&layer, Concat("tested (Upsample): the mask of channel 1 of the batch has the "
                                   "value ",
                                   place,
                                   ", which is outside the image of 2x4; give upsample_h and "
                                   "upsample_w, the size of the pooling's bottom"));
    if (!device->host_accessible()) {
      EXPECT_FALSE(std::isnan(layer.Top()[0]));
      EXPECT_TRUE(std::isnan(layer.Top()[8]));
      layer.SetTopDiff(0, std::vector<double>(24, 1));
      layer.Backward();
      EXPECT_EQ(layer.BottomDiff(0), std::vector<double>({1, 1, 0, 0, 0, 0}));
    }
    layer.SetBottom(1, {0, 7, 1, -1, 2, 0});
    layer.Forward();
    EXPECT_NO_THROW(layer.layer().CheckData()) << "the error is thrown once";
  }
}

TEST_P(UpsampleLayerTest, NoImages) {
  const auto [device, type] = GetParam();
  for (const size_t bottoms : {1, 2}) {
    LayerTester layer(UpsampleText(""), device, TypeTriple::Equal(type),
                      std::vector<Shape>(bottoms, {0, 2, 3, 3}));
    layer.Forward();
    layer.Backward();
    EXPECT_EQ(layer.top().shape(), Shape({0, 2, 6, 6}));
  }
}

INSTANTIATE_TEST_SUITE_P(All, UpsampleLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(UpsampleLayerGradientTest, AgreesWithDifferences) {
  Device* cpu = Runtime::Get().cpu();
  for (const Nearest& c : NearestCases()) {
    LayerTester(UpsampleText(c.text), cpu, TypeTriple::Equal(kDouble), {c.x}).CheckGradient();
  }
  for (const Masked& c : MaskedCases()) {
    LayerTester layer(UpsampleText(c.text), cpu, TypeTriple::Equal(kDouble), {c.x, c.x});
    layer.SetBottom(1, c.mask);
    layer.CheckGradient();
  }
}

TEST(UpsampleLayerShapeTest, FollowsTheBottom) {
  LayerTester layer(UpsampleText(""), Runtime::Get().cpu(), TypeTriple::Equal(kFloat),
                    {{1, 1, 2, 2}, {1, 1, 2, 2}});
  for (int i : {0, 1}) layer.bottom(i).Reshape({2, 1, 1, 3});
  layer.SetBottom(0, {1, 2, 3, 4, 5, 6});
  layer.SetBottom(1, {0, 3, 4, 7, 8, 11});
  layer.Forward();
  EXPECT_EQ(layer.Top(), std::vector<double>({1, 0, 0, 2, 3, 0, 0, 0, 0, 0, 0, 0,  //
                                              0, 0, 0, 0, 0, 0, 0, 4, 5, 0, 0, 6}));
}

TEST(UpsampleLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto message = [](const std::string& text, const std::vector<Shape>& shapes) {
    return ErrorOf([&] {
      LayerTester(UpsampleText(text), Runtime::Get().cpu(), TypeTriple::Equal(kFloat), shapes);
    });
  };
  const Shape x{1, 1, 4, 4};
  EXPECT_EQ(message("upsample_h: 3", {x}),
            "tested (Upsample): give upsample_h and upsample_w together");
  EXPECT_EQ(message("scale_h: 3", {x}), "tested (Upsample): give scale_h and scale_w together");
  EXPECT_EQ(message("scale: 2 scale_h: 3 scale_w: 3", {x}),
            "tested (Upsample): give either scale, or scale_h and scale_w");
  EXPECT_EQ(message("scale: 0", {x}), "tested (Upsample): the scale of 0x0 must be positive");
  EXPECT_EQ(message("upsample_h: 0 upsample_w: 4", {x}),
            "tested (Upsample): upsample_h 0 and upsample_w 4 must be positive");
  EXPECT_EQ(
      message("pad_out_h: true", {x}),
      "tested (Upsample): pad_out_h and pad_out_w need a second bottom, the mask of a pooling");
  EXPECT_EQ(
      message("scale: 3 pad_out_h: true", {x, x}),
      "tested (Upsample): pad_out_h and pad_out_w need a scale of 2, not 3x3; give upsample_h "
      "and upsample_w instead");
  EXPECT_EQ(message("", {x, {1, 1, 4, 5}}),
            "tested (Upsample): values of shape 1 1 4 4 (16) need a mask of the same shape, not "
            "1 1 4 5 (20)");
  EXPECT_EQ(message("", {{4, 4}}),
            "tested (Upsample): needs a bottom of 4 axes, not of shape 4 4 (16)");
  EXPECT_EQ(message("", {{1, 1, 0, 4}}),
            "tested (Upsample): the image of shape 1 1 0 4 (0) is empty");
  EXPECT_EQ(
      message("scale: 5000", {x, x}),
      "tested (Upsample): images of more than 2^24 elements are not supported; this one would "
      "have shape 1 1 20000 20000 (400000000)");
  EXPECT_EQ(message("scale: 1000000000", {x}),
            "tested (Upsample): 4 inputs and 4000000000 outputs of one axis are too many; their "
            "product must not be larger than 2^30");
}

}  // namespace
}  // namespace caffe

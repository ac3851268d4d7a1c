#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

std::string InterpText(const std::string& parameters) {
  return "type: 'Interp' interp_param { " + parameters + " }";
}

struct Case {
  std::string text;
  Shape x, y;
  int64_t cut_begin = 0, cut_end = 0;
};

std::vector<Case> Cases() {
  return {
      {"height: 7 width: 9", {2, 3, 4, 5}, {2, 3, 7, 9}},
      {"height: 3 width: 2", {2, 3, 7, 9}, {2, 3, 3, 2}},
      {"height: 6 width: 6", {1, 2, 6, 6}, {1, 2, 6, 6}},
      {"height: 13 width: 3", {1, 2, 4, 11}, {1, 2, 13, 3}},
      // One output row or column is the first input; one input is every output.
      {"height: 1 width: 5", {1, 2, 4, 3}, {1, 2, 1, 5}},
      {"height: 5 width: 1", {1, 2, 1, 1}, {1, 2, 5, 1}},
      {"height: 1 width: 1", {1, 2, 2, 2}, {1, 2, 1, 1}},
      {"zoom_factor: 4", {1, 2, 3, 4}, {1, 2, 9, 13}},
      {"shrink_factor: 3", {1, 2, 8, 7}, {1, 2, 3, 3}},
      // A factor alone comes before height and width, which come before both factors.
      {"zoom_factor: 2 height: 4 width: 4", {1, 2, 3, 4}, {1, 2, 5, 7}},
      {"zoom_factor: 2 shrink_factor: 3 height: 4 width: 4", {1, 2, 7, 10}, {1, 2, 4, 4}},
      {"zoom_factor: 3 shrink_factor: 2", {1, 2, 8, 7}, {1, 2, 10, 10}},
      {"height: 9 width: 8 pad_beg: -1 pad_end: -2", {1, 2, 7, 6}, {1, 2, 9, 8}, 1, 2},
      {"zoom_factor: 2 pad_beg: -2", {2, 1, 5, 4}, {2, 1, 5, 3}, 2, 0},
      {"shrink_factor: 2 pad_end: -1", {2, 1, 6, 4}, {2, 1, 3, 2}, 0, 1},
  };
}

// Inputs and weights of output o along an axis.
struct Sample {
  int64_t low, high;
  double weight;  // of `high`
};

Sample SampleAt(int64_t o, int64_t inputs, int64_t outputs) {
  if (outputs == 1) return {0, 0, 0};
  const double at = static_cast<double>(o * (inputs - 1)) / static_cast<double>(outputs - 1);
  const int64_t low = o * (inputs - 1) / (outputs - 1);
  return {low, std::min(low + 1, inputs - 1), at - static_cast<double>(low)};
}

// Calls visit(element of y, element of x, weight).
template <class Visit> void ForEachWeight(const Case& c, const Visit& visit) {
  const int64_t cut = c.cut_begin + c.cut_end;
  for (int64_t plane = 0; plane < c.x[0] * c.x[1]; ++plane) {
    for (int64_t oh = 0; oh < c.y[2]; ++oh) {
      for (int64_t ow = 0; ow < c.y[3]; ++ow) {
        const Sample h = SampleAt(oh, c.x[2] - cut, c.y[2]), w = SampleAt(ow, c.x[3] - cut, c.y[3]);
        const int64_t to = (plane * c.y[2] + oh) * c.y[3] + ow;
        const auto add = [&](int64_t row, int64_t column, double weight) {
          visit(to, (plane * c.x[2] + row + c.cut_begin) * c.x[3] + column + c.cut_begin, weight);
        };
        add(h.low, w.low, (1 - h.weight) * (1 - w.weight));
        add(h.low, w.high, (1 - h.weight) * w.weight);
        add(h.high, w.low, h.weight * (1 - w.weight));
        add(h.high, w.high, h.weight * w.weight);
      }
    }
  }
}

class InterpLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(InterpLayerTest, ByHand) {
  const auto [device, type] = GetParam();
  LayerTester layer(InterpText("height: 3 width: 5"), device, TypeTriple::Equal(type),
                    {{1, 1, 2, 3}});
  layer.SetBottom(0, {0, 2, 4, 8, 16, 0});
  layer.Forward();
  EXPECT_EQ(layer.Top(), std::vector<double>({0, 1, 2, 3, 4, 4, 6.5, 9, 5.5, 2, 8, 12, 16, 8, 0}));
  layer.SetTopDiff(0, {0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8});
  layer.Backward();
  EXPECT_EQ(layer.BottomDiff(0), std::vector<double>({0, 1, 1, 0, 1, 9}));
}

TEST_P(InterpLayerTest, AgreesWithTheFormula) {
  const auto [device, type] = GetParam();
  for (const Case& c : Cases()) {
    LayerTester layer(InterpText(c.text), device, TypeTriple::Equal(type), {c.x});
    layer.Forward();
    ASSERT_EQ(layer.top().shape(), c.y) << c.text;
    layer.RandomTopDiff();
    layer.Backward();
    const std::vector<double> x = layer.Bottom(0), d = layer.top().DiffAsDouble();
    std::vector<double> y(d.size()), x_diff(x.size());
    ForEachWeight(c, [&](int64_t to, int64_t from, double weight) {
      y[to] += weight * x[from];
      x_diff[from] += weight * d[to];
    });
    ExpectNear(layer.Top(), y, Tolerance(type), c.text);
    ExpectNear(layer.BottomDiff(0), x_diff, Tolerance(type), "dE/dx of " + c.text);
  }
}

// An output at the position of an input does not read the next input.
TEST_P(InterpLayerTest, InfinitiesStayWhereTheyAre) {
  const auto [device, type] = GetParam();
  const double inf = std::numeric_limits<double>::infinity();
  LayerTester layer(InterpText("zoom_factor: 2"), device, TypeTriple::Equal(type), {{1, 1, 2, 2}});
  layer.SetBottom(0, {1, inf, 3, 4});
  layer.Forward();
  EXPECT_EQ(layer.Top(), std::vector<double>({1, inf, inf, 2, inf, inf, 3, 3.5, 4}));
}

// The second bottom counts for its size alone.
TEST_P(InterpLayerTest, SizeOfTheSecondBottom) {
  const auto [device, type] = GetParam();
  LayerTester layer(InterpText(""), device, TypeTriple::Equal(type), {{1, 1, 2, 2}, {3, 7, 3, 3}});
  layer.SetBottom(0, {1, 2, 3, 4});
  layer.Forward();
  EXPECT_EQ(layer.top().shape(), Shape({1, 1, 3, 3}));
  EXPECT_EQ(layer.Top(), std::vector<double>({1, 1.5, 2, 2, 2.5, 3, 3, 3.5, 4}));
  layer.bottom(1).Reshape({1, 1, 1, 3});
  layer.Forward();
  EXPECT_EQ(layer.Top(), std::vector<double>({1, 1.5, 2}));
  LayerTester fixed(InterpText("height: 2 width: 1"), device, TypeTriple::Equal(type),
                    {{1, 1, 2, 2}, {1, 1, 3, 3}});
  EXPECT_EQ(fixed.top().shape(), Shape({1, 1, 2, 1}));
}

TEST_P(InterpLayerTest, NoImages) {
  const auto [device, type] = GetParam();
  LayerTester layer(InterpText("zoom_factor: 2"), device, TypeTriple::Equal(type), {{0, 2, 3, 3}});
  layer.Forward();
  layer.Backward();
  EXPECT_EQ(layer.top().shape(), Shape({0, 2, 5, 5}));
}

INSTANTIATE_TEST_SUITE_P(All, InterpLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(InterpLayerGradientTest, AgreesWithDifferences) {
  for (const Case& c : Cases()) {
    LayerTester layer(InterpText(c.text), Runtime::Get().cpu(), TypeTriple::Equal(kDouble), {c.x});
    layer.CheckGradient();
  }
}

TEST(InterpLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto message = [](const std::string& text, const std::vector<Shape>& shapes) {
    return ErrorOf([&] {
      LayerTester(InterpText(text), Runtime::Get().cpu(), TypeTriple::Equal(kFloat), shapes);
    });
  };
  EXPECT_EQ(
      message("", {{1, 1, 4, 4}}),
      "tested (Interp): give height and width, zoom_factor, shrink_factor, or a second bottom "
      "that has the output's size");
  EXPECT_EQ(message("height: 3", {{1, 1, 4, 4}}),
            "tested (Interp): height 3 and width 0 must both be given and positive");
  EXPECT_EQ(message("height: 3 width: -1", {{1, 1, 4, 4}}),
            "tested (Interp): height 3 and width -1 must both be given and positive");
  EXPECT_EQ(message("zoom_factor: 0", {{1, 1, 4, 4}}),
            "tested (Interp): shrink_factor 1 and zoom_factor 0 must be positive");
  EXPECT_EQ(
      message("zoom_factor: 2 pad_beg: 1", {{1, 1, 4, 4}}),
      "tested (Interp): pad_beg 1 and pad_end 0 must be 0 or negative: rows and columns can be "
      "cut off, not added");
  EXPECT_EQ(message("zoom_factor: 2 pad_beg: -2 pad_end: -2", {{1, 1, 4, 5}}),
            "tested (Interp): pad_beg -2 and pad_end -2 leave nothing of the bottom of shape "
            "1 1 4 5 (20)");
  EXPECT_EQ(message("zoom_factor: 2", {{4, 4}}),
            "tested (Interp): needs bottoms of 4 axes, not of shape 4 4 (16)");
  EXPECT_EQ(message("", {{1, 1, 4, 4}, {4, 4}}),
            "tested (Interp): needs bottoms of 4 axes, not of shape 4 4 (16)");
  EXPECT_EQ(message("height: 1000000 width: 1", {{1, 1, 2000, 1}}),
            "tested (Interp): 2000 inputs and 1000000 outputs of one axis are too many; their "
            "product must not be larger than 2^30");
}

}  // namespace
}  // namespace caffe

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

std::string PoolingText(const std::string& more) {
  return "type: 'Pooling' pooling_param { " + more + " }";
}

struct Window {
  int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
};

// Calls visit(plane, index of the output, h0, h1, w0, w1 of its window, unclipped at the start and
// clipped to the padding at the end).
template <class Visit>
void ForEachWindow(const Shape& x, const Shape& y, const Window& g, const Visit& visit) {
  for (int64_t plane = 0; plane < x[0] * x[1]; ++plane) {
    for (int64_t oh = 0; oh < y[2]; ++oh) {
      for (int64_t ow = 0; ow < y[3]; ++ow) {
        const int64_t h = oh * g.stride_h - g.pad_h, w = ow * g.stride_w - g.pad_w;
        visit(plane, (plane * y[2] + oh) * y[3] + ow, h, std::min(h + g.kernel_h, x[2] + g.pad_h),
              w, std::min(w + g.kernel_w, x[3] + g.pad_w));
      }
    }
  }
}

// Calls visit(element of x, its index in the plane) for the elements of a window inside the image.
template <class Visit>
void ForEachElement(const Shape& x, int64_t plane, int64_t h0, int64_t h1, int64_t w0, int64_t w1,
                    const Visit& visit) {
  for (int64_t h = std::max<int64_t>(h0, 0); h < std::min(h1, x[2]); ++h) {
    for (int64_t w = std::max<int64_t>(w0, 0); w < std::min(w1, x[3]); ++w) {
      visit((plane * x[2] + h) * x[3] + w, h * x[3] + w);
    }
  }
}

struct Case {
  std::string text;
  Shape x, y;
  Window window;
};

std::vector<Case> Cases() {
  return {
      {"kernel_size: 2 stride: 2", {2, 3, 6, 8}, {2, 3, 3, 4}, {2, 2, 2, 2, 0, 0}},
      // Rounded up: the last windows are cut.
      {"kernel_size: 2 stride: 2", {2, 3, 5, 7}, {2, 3, 3, 4}, {2, 2, 2, 2, 0, 0}},
      {"kernel_size: 2 stride: 2 round_mode: FLOOR",
       {2, 3, 5, 7},
       {2, 3, 2, 3},
       {2, 2, 2, 2, 0, 0}},
      // As forks write it, here as in DenseNet and ResNet.
      {"kernel_size: 3 stride: 2 pad: 1 ceil_mode: false",
       {1, 2, 8, 6},
       {1, 2, 4, 3},
       {3, 3, 2, 2, 1, 1}},
      {"kernel_size: 2 stride: 2 ceil_mode: true", {2, 3, 5, 7}, {2, 3, 3, 4}, {2, 2, 2, 2, 0, 0}},
      {"kernel_size: 2 stride: 2 ceil_mode: false round_mode: FLOOR",
       {2, 3, 5, 7},
       {2, 3, 2, 3},
       {2, 2, 2, 2, 0, 0}},
      {"kernel_size: 3 stride: 2", {2, 3, 8, 9}, {2, 3, 4, 4}, {3, 3, 2, 2, 0, 0}},
      {"kernel_size: 3 stride: 1", {1, 2, 5, 4}, {1, 2, 3, 2}, {3, 3, 1, 1, 0, 0}},
      {"kernel_size: 3 stride: 2 pad: 1", {1, 2, 7, 5}, {1, 2, 4, 3}, {3, 3, 2, 2, 1, 1}},
      // Rounded up to 4, and the window that would begin beyond the image is dropped.
      {"kernel_size: 3 stride: 3 pad: 2", {1, 2, 6, 5}, {1, 2, 3, 3}, {3, 3, 3, 3, 2, 2}},
      // Lists, which a prototxt writes without _nd, a dilation of 1 and the axis from the end, as
      // the OpenCL fork has them.
      {"kernel_size_nd: [3, 2] stride_nd: [2, 1] pad_nd: [1, 0] dilation: [1, 1] axis: -3",
       {1, 2, 7, 5},
       {1, 2, 4, 4},
       {3, 2, 2, 1, 1, 0}},
      {"kernel_size_nd: 2 stride_nd: 2 pad_nd: [0, 0] dilation: 1 axis: 1",
       {2, 3, 6, 8},
       {2, 3, 3, 4},
       {2, 2, 2, 2, 0, 0}},
      {"kernel_h: 2 kernel_w: 4 stride_h: 1 stride_w: 3 pad_h: 1 pad_w: 2",
       {2, 1, 4, 9},
       {2, 1, 5, 4},
       {2, 4, 1, 3, 1, 2}},
      // Larger than the image, and rounded up to one window.
      {"kernel_size: 3 stride: 2", {2, 3, 2, 2}, {2, 3, 1, 1}, {3, 3, 2, 2, 0, 0}},
      {"kernel_size: 2 stride: 2", {2, 3, 1, 1}, {2, 3, 1, 1}, {2, 2, 2, 2, 0, 0}},
      {"kernel_size: 2 stride: 2", {2, 3, 1, 8}, {2, 3, 1, 4}, {2, 2, 2, 2, 0, 0}},
      {"kernel_size: 5 stride: 4 pad: 1", {1, 2, 1, 6}, {1, 2, 1, 2}, {5, 5, 4, 4, 1, 1}},
      {"kernel_h: 9 kernel_w: 2 stride_h: 6 stride_w: 1 pad_h: 1 pad_w: 1",
       {1, 2, 2, 3},
       {1, 2, 1, 4},
       {9, 2, 6, 1, 1, 1}},
      {"kernel_size: 16777216 stride: 16777216",
       {1, 2, 3, 2},
       {1, 2, 1, 1},
       {16777216, 16777216, 16777216, 16777216, 0, 0}},
      {"global_pooling: true", {3, 4, 5, 7}, {3, 4, 1, 1}, {5, 7, 1, 1, 0, 0}},
  };
}

class PoolingLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(PoolingLayerTest, Max) {
  const auto [device, type] = GetParam();
  for (const Case& c : Cases()) {
    for (int tops : {1, 2}) {
      LayerTester layer(PoolingText(c.text), device, TypeTriple::Equal(type), {c.x}, tops);
      layer.Forward();
      ASSERT_EQ(layer.top().shape(), c.y) << c.text;
      layer.RandomTopDiff();
      layer.Backward();
      const std::vector<double> x = layer.Bottom(0), d = layer.top().DiffAsDouble();
      std::vector<double> y(d.size(), -1e30), mask(d.size(), -1), x_diff(x.size());
      ForEachWindow(c.x, c.y, c.window, [&](int64_t plane, int64_t i, auto... window) {
        int64_t from = -1;
        ForEachElement(c.x, plane, window..., [&](int64_t at, int64_t place) {
          if (x[at] > y[i]) {
            y[i] = x[at];
            mask[i] = static_cast<double>(place);
            from = at;
          }
        });
        x_diff[from] += d[i];
      });
      EXPECT_EQ(layer.Top(), y) << c.text;
      ExpectNear(layer.BottomDiff(0), x_diff, Tolerance(type), "dE/dx of " + c.text);
      if (tops == 1) continue;
      EXPECT_EQ(layer.top(1).type(), kFloat);
      EXPECT_EQ(layer.Top(1), mask) << c.text;
    }
  }
}

TEST_P(PoolingLayerTest, FirstOfEqualValuesWins) {
  const auto [device, type] = GetParam();
  for (const char* text : {"kernel_size: 2 stride: 2", "kernel_size: 2 stride: 1"}) {
    LayerTester layer(PoolingText(text), device, TypeTriple::Equal(type), {{1, 1, 2, 2}}, 2);
    layer.SetBottom(0, {-1, 0.5, 0.5, 0.5});
    layer.Forward();
    EXPECT_EQ(layer.Top(0), std::vector<double>({0.5}));
    EXPECT_EQ(layer.Top(1), std::vector<double>({1}));
    const double nan = std::numeric_limits<double>::quiet_NaN();
    layer.SetBottom(0, {nan, nan, nan, nan});
    layer.Forward();
    EXPECT_EQ(layer.Top(1), std::vector<double>({-1}));
    layer.SetTopDiff(0, {1});
    layer.Backward();
    EXPECT_EQ(layer.BottomDiff(0), std::vector<double>(4, 0));
  }
}

TEST_P(PoolingLayerTest, Average) {
  const auto [device, type] = GetParam();
  for (const Case& c : Cases()) {
    LayerTester layer(PoolingText("pool: AVE " + c.text), device, TypeTriple::Equal(type), {c.x});
    layer.Forward();
    ASSERT_EQ(layer.top().shape(), c.y) << c.text;
    layer.RandomTopDiff();
    layer.Backward();
    const std::vector<double> x = layer.Bottom(0), d = layer.top().DiffAsDouble();
    std::vector<double> y(d.size()), x_diff(x.size());
    ForEachWindow(c.x, c.y, c.window,
                  [&](int64_t plane, int64_t i, int64_t h0, int64_t h1, int64_t w0, int64_t w1) {
                    const double area = static_cast<double>((h1 - h0) * (w1 - w0));
                    ForEachElement(c.x, plane, h0, h1, w0, w1, [&](int64_t at, int64_t) {
                      y[i] += x[at] / area;
                      x_diff[at] += d[i] / area;
                    });
                  });
    ExpectNear(layer.Top(), y, Tolerance(type), c.text);
    ExpectNear(layer.BottomDiff(0), x_diff, Tolerance(type), "dE/dx of " + c.text);
  }
}

TEST_P(PoolingLayerTest, StochasticDrawsInProportion) {
  const auto [device, type] = GetParam();
  // Many equal windows of 1, 0, 2, 1.
  const int64_t planes = 4000;
  LayerTester layer(PoolingText("pool: STOCHASTIC kernel_size: 2"), device, TypeTriple::Equal(type),
                    {{planes, 1, 2, 2}});
  std::vector<double> x(4 * planes);
  for (int64_t i = 0; i < 4 * planes; ++i) x[i] = (i % 4 == 2 ? 2 : i % 4 == 1 ? 0 : 1);
  layer.SetBottom(0, x);
  layer.Forward();
  const std::vector<double> y = layer.Top();
  layer.SetTopDiff(0, std::vector<double>(planes, 1));
  layer.Backward();
  std::vector<double> drawn(4);
  const std::vector<double> d = layer.BottomDiff(0);
  for (int64_t i = 0; i < 4 * planes; ++i) {
    drawn[i % 4] += d[i];
    if (d[i] != 0) {
      ASSERT_EQ(y[i / 4], x[i]);
    }
  }
  EXPECT_NEAR(drawn[0] / planes, 0.25, 0.03);
  EXPECT_EQ(drawn[1], 0);
  EXPECT_NEAR(drawn[2] / planes, 0.5, 0.03);
  EXPECT_NEAR(drawn[3] / planes, 0.25, 0.03);
  layer.Forward();
  EXPECT_NE(layer.Top(), y) << "every forward draws again";
  layer.layer().SetRunState(layer.layer().context().seed, {0});
  layer.Forward();
  EXPECT_EQ(layer.Top(), y) << "the first forward once more";
}

TEST_P(PoolingLayerTest, StochasticExpectsInTest) {
  const auto [device, type] = GetParam();
  LayerTester layer("phase: TEST " + PoolingText("pool: STOCHASTIC kernel_size: 2"), device,
                    TypeTriple::Equal(type), {{2, 1, 2, 2}});
  layer.SetBottom(0, {1, 0, 2, 1, 0, 0, 0, 0});
  layer.Forward();
  ExpectNear(layer.Top(), {1.5, 0}, Tolerance(type), "y");
  layer.RandomTopDiff();
  EXPECT_THROW(layer.Backward(), Error);
}

TEST_P(PoolingLayerTest, StochasticWindowLargerThanTheImage) {
  const auto [device, type] = GetParam();
  const std::string text = PoolingText("pool: STOCHASTIC kernel_size: 3 stride: 2");
  LayerTester train(text, device, TypeTriple::Equal(type), {{1, 1, 2, 2}});
  ASSERT_EQ(train.top().shape(), Shape({1, 1, 1, 1}));
  train.SetBottom(0, {0, 0, 3, 0});
  train.Forward();
  EXPECT_EQ(train.Top(), std::vector<double>({3}));
  train.SetTopDiff(0, {2});
  train.Backward();
  EXPECT_EQ(train.BottomDiff(0), std::vector<double>({0, 0, 2, 0}));
  LayerTester test("phase: TEST " + text, device, TypeTriple::Equal(type), {{1, 1, 2, 2}});
  test.SetBottom(0, {1, 0, 2, 1});
  test.Forward();
  ExpectNear(test.Top(), {1.5}, Tolerance(type), "y");
}

INSTANTIATE_TEST_SUITE_P(All, PoolingLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(PoolingLayerGradientTest, AgreesWithDifferences) {
  for (const char* pool : {"MAX", "AVE"}) {
    for (const Case& c : Cases()) {
      LayerTester layer(PoolingText(Concat("pool: ", pool, " ", c.text)), Runtime::Get().cpu(),
                        TypeTriple::Equal(kDouble), {c.x});
      // Distinct values, so that no difference crosses another maximum.
      std::vector<double> x = layer.Bottom(0);
      for (size_t i = 0; i < x.size(); ++i) x[i] += 1e-3 * i / x.size();
      layer.SetBottom(0, x);
      layer.CheckGradient(1e-7, 1e-5);
    }
  }
}

TEST(PoolingLayerShapeTest, GlobalFollowsTheImage) {
  LayerTester layer(PoolingText("pool: AVE global_pooling: true"), Runtime::Get().cpu(),
                    TypeTriple::Equal(kFloat), {{1, 1, 2, 2}});
  layer.bottom().Reshape({1, 1, 1, 3});
  layer.SetBottom(0, {1, 2, 6});
  layer.Forward();
  EXPECT_EQ(layer.Top(), std::vector<double>({3}));
}

TEST(PoolingLayerShapeTest, EmptyWindowsBehindTheImage) {
  // A stride beyond the kernel rounds up to a window that holds nothing.
  LayerTester layer(PoolingText("kernel_size: 1 stride: 3"), Runtime::Get().cpu(),
                    TypeTriple::Equal(kFloat), {{1, 1, 1, 3}}, 2);
  ASSERT_EQ(layer.top().shape(), Shape({1, 1, 1, 2}));
  layer.Forward();
  EXPECT_EQ(layer.Top(0)[1], -std::numeric_limits<float>::max());
  EXPECT_EQ(layer.Top(1)[1], -1);
}

TEST(PoolingLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto make = [](const std::string& text, const Shape& x = {1, 1, 5, 5}, int tops = 1) {
    LayerTester(PoolingText(text), Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {x}, tops);
  };
  EXPECT_NO_THROW(make("kernel_size: 5"));
  for (const char* text :
       {"", "kernel_size: 0", "kernel_size: 6", "kernel_size: 2 stride: 0", "kernel_h: 2",
        "kernel_size: 2 kernel_h: 2 kernel_w: 2", "kernel_size: 2 pad: 2",
        "kernel_size: 2 global_pooling: true", "global_pooling: true pad: 1",
        "kernel_size: 2 stride_h: 2", "pool: STOCHASTIC kernel_size: 2 pad: 1",
        "kernel_size: 7 stride: 2", "kernel_size: 6 stride: 2 round_mode: FLOOR",
        "kernel_size: 8 stride: 1 pad: 1", "kernel_size: 16777217 stride: 16777217",
        "kernel_size: 4294967295 stride: 4294967295"}) {
    EXPECT_THROW(make(text), Error) << text;
  }
  EXPECT_NO_THROW(make("kernel_size: 6 stride: 2"));
  EXPECT_EQ(
      ErrorOf([&] { make("kernel_size: 7 stride: 2"); }),
      "tested (Pooling): a window of 7 is larger than the input of 5 padded by 0; with stride "
      "2, rounded up, there is no output");
  EXPECT_EQ(ErrorOf([&] { make("kernel_size: 2 ceil_mode: true round_mode: FLOOR"); }),
            "tested (Pooling): ceil_mode true contradicts round_mode FLOOR; give one of them");
  EXPECT_THROW(make("kernel_size: 2 ceil_mode: false round_mode: CEIL"), Error);
  for (const auto& [text, said] : std::map<std::string, std::string>{
           {"kernel_size_nd: [2, 2, 2]",
            "kernel_size is given 3 times, but pooling has two spatial "},
           {"kernel_size: 2 stride_nd: [1, 1, 1]", "stride is given 3 times"},
           {"kernel_size_nd: [2, 2] kernel_h: 2",
            "give either kernel_size, or kernel_h and kernel_w"},
           {"kernel_size: 2 pad_nd: [1, 1] pad_w: 1", "give either pad, or pad_h and pad_w"},
           {"kernel_size: 2 dilation: 2", "dilation 2 is not supported, only 1"},
           {"kernel_size: 2 dilation: [1, 3]", "dilation 3 is not supported, only 1"},
           {"kernel_size: 2 axis: -2", "axis -2 is not supported"},
           {"kernel_size_nd: [0, 2]", "the kernel of 0x2 must be positive"},
           {"global_pooling: true kernel_size_nd: [2, 2]",
            "must not be given with a kernel size"}}) {
    const std::string error = ErrorOf([&, &text = text] { make(text); });
    EXPECT_NE(error.find(said), std::string::npos) << text << ": " << error;
  }
  EXPECT_THROW(make("kernel_size: 6 stride: 2 ceil_mode: false"), Error);
  EXPECT_THROW(make("kernel_size: 2", {5, 5}), Error);
  EXPECT_THROW(make("pool: AVE kernel_size: 2", {1, 1, 5, 5}, 2), Error);
}

}  // namespace
}  // namespace caffe

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "caffe/core/error.hpp"
#include "caffe/device/cpu/shared_cores.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

std::string ConvolutionText(const std::string& more) {
  return "type: 'Convolution' convolution_param {"
         " weight_filler { type: 'uniform' min: -0.25 max: 0.25 }"
         " bias_filler { type: 'uniform' min: -1 max: 1 } " +
         more + " }";
}

struct Geometry {
  Shape kernel, stride, pad, dilation;
  int64_t group;
};

// Calls visit(index in y, index in x, index in w) for every product of a convolution.
template <class Visit>
void ForEachProduct(const Shape& x, const Shape& y, const Geometry& g, const Visit& visit) {
  const int axes = static_cast<int>(g.kernel.size());
  const int64_t inputs = x[1] / g.group, outputs = y[1] / g.group;
  const int64_t positions = ShapeCount(y, 2), taps = ShapeCount(g.kernel);
  for (int64_t n = 0; n < x[0]; ++n) {
    for (int64_t o = 0; o < y[1]; ++o) {
      for (int64_t p = 0; p < positions; ++p) {
        for (int64_t c = 0; c < inputs; ++c) {
          for (int64_t k = 0; k < taps; ++k) {
            int64_t rest_p = p, rest_k = k, at = 0, step = 1;
            bool inside = true;
            for (int a = axes - 1; a >= 0; --a) {
              const int64_t i =
                  rest_p % y[2 + a] * g.stride[a] + rest_k % g.kernel[a] * g.dilation[a] - g.pad[a];
              inside = inside && i >= 0 && i < x[2 + a];
              at += i * step;
              step *= x[2 + a];
              rest_p /= y[2 + a];
              rest_k /= g.kernel[a];
            }
            if (!inside) continue;
            visit((n * y[1] + o) * positions + p, (n * x[1] + o / outputs * inputs + c) * step + at,
                  (o * inputs + c) * taps + k);
          }
        }
      }
    }
  }
}

struct Case {
  std::string text;
  Shape x, y;
  Geometry geometry;
};

std::vector<Case> Cases() {
  return {
      {"num_output: 4 kernel_size: 3 stride: 2",
       {2, 3, 6, 4},
       {2, 4, 2, 1},
       {{3, 3}, {2, 2}, {0, 0}, {1, 1}, 1}},
      {"num_output: 6 kernel_h: 3 kernel_w: 2 pad_h: 1 pad_w: 0 stride_h: 1 stride_w: 2 group: 3",
       {2, 6, 5, 7},
       {2, 6, 5, 3},
       {{3, 2}, {1, 2}, {1, 0}, {1, 1}, 3}},
      {"num_output: 5 kernel_size: 3 pad: 2 dilation: 2",
       {1, 2, 7, 6},
       {1, 5, 7, 6},
       {{3, 3}, {1, 1}, {2, 2}, {2, 2}, 1}},
      {"num_output: 8 kernel_size: 1",
       {3, 4, 5, 5},
       {3, 8, 5, 5},
       {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 1}},
      {"num_output: 4 kernel_size: 3 stride: 2", {2, 2, 9}, {2, 4, 4}, {{3}, {2}, {0}, {1}, 1}},
      {"num_output: 4 kernel_size: 2 kernel_size: 3 kernel_size: 1 pad: 1 group: 2",
       {2, 4, 3, 4, 2},
       {2, 4, 4, 4, 4},
       {{2, 3, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 2}},
      // Depthwise.
      {"num_output: 4 kernel_size: 3 pad: 1 group: 4",
       {2, 4, 6, 5},
       {2, 4, 6, 5},
       {{3, 3}, {1, 1}, {1, 1}, {1, 1}, 4}},
      {"num_output: 6 kernel_size: 3 stride: 2 pad: 1 group: 3",
       {2, 3, 7, 6},
       {2, 6, 4, 3},
       {{3, 3}, {2, 2}, {1, 1}, {1, 1}, 3}},
  };
}

class ConvolutionLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(ConvolutionLayerTest, ForwardAndBackward) {
  const auto [device, type] = GetParam();
  const double master = type == kDouble ? Tolerance(kDouble) : 4 * Tolerance(kFloat);
  // cuDNN may store gradients of weights in `type` before they are added to masters.
  const bool rounds = device->backend() == "cuda";
  const double stored = rounds ? std::max(master, Tolerance(type)) : master;
  for (const Case& c : Cases()) {
    LayerTester layer(ConvolutionText(c.text), device, TypeTriple::Equal(type), {c.x});
    layer.Forward();
    ASSERT_EQ(layer.top().shape(), c.y) << c.text;
    auto& blobs = layer.layer().blobs();
    const std::vector<double> x = layer.Bottom(0), w = blobs[0]->DataAsDouble();
    const std::vector<double> b = blobs[1]->DataAsDouble();
    std::vector<double> y(layer.top().count());
    const int64_t positions = ShapeCount(c.y, 2);
    for (size_t i = 0; i < y.size(); ++i) y[i] = b[i / positions % c.y[1]];
    ForEachProduct(c.x, c.y, c.geometry,
                   [&](int64_t iy, int64_t ix, int64_t iw) { y[iy] += x[ix] * w[iw]; });
    ExpectNear(layer.Top(), y, 2 * Tolerance(type), c.text);

    layer.RandomTopDiff();
    for (auto& blob : blobs) blob->SetDiff(std::vector<double>(blob->count(), 0.5));
    layer.Backward();
    const std::vector<double> d = layer.top().DiffAsDouble();
    std::vector<double> x_diff(x.size()), w_diff(w.size(), 0.5), b_diff(b.size(), 0.5);
    for (size_t i = 0; i < d.size(); ++i) b_diff[i / positions % c.y[1]] += d[i];
    ForEachProduct(c.x, c.y, c.geometry, [&](int64_t iy, int64_t ix, int64_t iw) {
      x_diff[ix] += d[iy] * w[iw];
      w_diff[iw] += d[iy] * x[ix];
    });
    ExpectNear(layer.BottomDiff(0), x_diff, 2 * Tolerance(type), "dE/dx of " + c.text);
    // Added in the type of masters, for every type of blobs.
    ExpectNear(blobs[0]->DiffAsDouble(), w_diff, stored, "dE/dw of " + c.text);
    ExpectNear(blobs[1]->DiffAsDouble(), b_diff, master, "dE/db of " + c.text);
  }
}

TEST_P(ConvolutionLayerTest, SharesWeightsBetweenBottoms) {
  const auto [device, type] = GetParam();
  LayerTester layer(ConvolutionText("num_output: 2 kernel_size: 3 bias_term: false"), device,
                    TypeTriple::Equal(type), {{2, 3, 5, 5}, {2, 3, 5, 5}}, 2);
  EXPECT_EQ(layer.layer().blobs().size(), 1u);
  layer.SetBottom(1, layer.Bottom(0));
  layer.Forward();
  EXPECT_EQ(layer.Top(0), layer.Top(1));
}

TEST_P(ConvolutionLayerTest, FusedReLU) {
  const auto [device, type] = GetParam();
  LayerTester layer("phase: TEST " + ConvolutionText("num_output: 6 kernel_size: 3"), device,
                    TypeTriple::Equal(type), {{2, 3, 6, 7}});
  layer.Forward();
  std::vector<double> expected = layer.Top();
  for (double& y : expected) y = y > 0 ? y : 0;
  layer.ForwardWith({{}, {kPlainReLU}});
  ExpectNear(layer.Top(), expected, Tolerance(type), "y");
}

TEST_P(ConvolutionLayerTest, FollowsTheShapeOfItsBottom) {
  const auto [device, type] = GetParam();
  LayerTester layer(ConvolutionText("num_output: 1 kernel_size: 1 bias_term: false"), device,
                    TypeTriple::Equal(type), {{1, 1, 2, 2}});
  layer.layer().blobs()[0]->SetData({0.5});
  layer.Forward();
  layer.bottom().Reshape({2, 1, 1, 3});
  layer.SetBottom(0, {2, 4, 6, 8, 10, 12});
  layer.Forward();
  EXPECT_EQ(layer.top().shape(), Shape({2, 1, 1, 3}));
  EXPECT_EQ(layer.Top(), std::vector<double>({1, 2, 3, 4, 5, 6}));
}

INSTANTIATE_TEST_SUITE_P(All, ConvolutionLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(ConvolutionLayerGradientTest, AgreesWithDifferences) {
  for (const Case& c : Cases()) {
    LayerTester layer(ConvolutionText(c.text), Runtime::Get().cpu(), TypeTriple::Equal(kDouble),
                      {c.x});
    layer.CheckGradient();
  }
  LayerTester two(ConvolutionText("num_output: 2 kernel_size: 2"), Runtime::Get().cpu(),
                  TypeTriple::Equal(kDouble), {{2, 2, 3, 3}, {2, 2, 3, 3}}, 2);
  two.CheckGradient();
}

// From now on, for half a second of processor time, the library finds that cores are shared, or
// that they are not.
void SetCoresShared(bool shared) {
  rusage usage{};
  ASSERT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  const double seconds =
      static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
      1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  WatchCores(0, seconds + 1e6);  // begins an observation, whatever was observed before
  WatchCores(0, seconds - 1);
  WatchCores(shared ? 10000 : 0, seconds);
  ASSERT_EQ(CoresAreShared(), shared);
}

TEST(ConvolutionLayerCpuTest, OtherProcessesDoNotChangeResults) {
  // The first two convolutions of LeNet, and one with more channels.
  struct Sizes {
    int64_t batch, in, size, out, kernel;
  };
  for (const Sizes& s : {Sizes{2, 1, 28, 20, 5}, {2, 20, 12, 50, 5}, {2, 3, 14, 100, 3}}) {
    LayerTester layer(ConvolutionText(Concat("num_output: ", s.out, " kernel_size: ", s.kernel)),
                      Runtime::Get().cpu(), TypeTriple::Equal(kFloat),
                      {{s.batch, s.in, s.size, s.size}});
    SetCoresShared(false);
    layer.Forward();
    const std::vector<double> expected = layer.Top();
    SetCoresShared(true);
    layer.Forward();
    EXPECT_EQ(layer.Top(), expected) << s.in << " channels";
    SetCoresShared(false);
  }
}

TEST(ConvolutionLayerShapeTest, NoSpatialAxes) {
  LayerTester layer(ConvolutionText("num_output: 3"), Runtime::Get().cpu(),
                    TypeTriple::Equal(kDouble), {{4, 5}});
  EXPECT_EQ(layer.top().shape(), Shape({4, 3}));
  layer.CheckGradient();
}

TEST(ConvolutionLayerShapeTest, BackwardInTheTestPhase) {
  LayerTester layer("phase: TEST " + ConvolutionText("num_output: 2 kernel_size: 2"),
                    Runtime::Get().cpu(), TypeTriple::Equal(kDouble), {{1, 2, 3, 3}});
  layer.CheckGradient();
}

TEST(ConvolutionLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto make = [](const std::string& text, const Shape& x = {1, 4, 5, 5}) {
    LayerTester(ConvolutionText(text), Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {x});
  };
  EXPECT_NO_THROW(make("num_output: 2 kernel_size: 5"));
  for (const char* text : {
           "num_output: 2 kernel_size: 6",                          // larger than the input
           "num_output: 2 kernel_size: 3 dilation: 3",              // likewise, 7 wide
           "num_output: 2 kernel_size: 3 stride: 0",                //
           "num_output: 2 kernel_size: 0",                          //
           "num_output: 2",                                         // no kernel
           "kernel_size: 3",                                        // no outputs
           "num_output: 6 kernel_size: 3 group: 3",                 // 4 channels
           "num_output: 3 kernel_size: 3 group: 2",                 //
           "num_output: 2 kernel_size: 3 group: 0",                 //
           "num_output: 2 kernel_size: 3 kernel_h: 3 kernel_w: 3",  // both forms
           "num_output: 2 kernel_h: 3",                             // kernel_w is 0
           "num_output: 2 kernel_size: 3 stride_h: 2",              // stride_w is 0
           "num_output: 2 kernel_size: 3 pad: 1 pad: 1 pad: 1",     // for two axes
       }) {
    EXPECT_THROW(make(text), Error) << text;
  }
  EXPECT_THROW(make("num_output: 2 kernel_h: 3 kernel_w: 3", {1, 4, 5}), Error);
}

}  // namespace
}  // namespace caffe

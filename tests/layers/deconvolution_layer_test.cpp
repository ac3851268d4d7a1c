#include <gtest/gtest.h>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

std::string DeconvolutionText(const std::string& more) {
  return "type: 'Deconvolution' convolution_param {"
         " weight_filler { type: 'uniform' min: -0.25 max: 0.25 }"
         " bias_filler { type: 'uniform' min: -1 max: 1 } " +
         more + " }";
}

struct Geometry {
  Shape kernel, stride, pad, dilation;
  int64_t group;
};

struct Case {
  std::string text;
  Shape x, y;
  Geometry geometry;
};

// Calls visit(index in x, index in w, index in y) for every product of the definition: each element
// of x is spread over a window of y.
template <class Visit> void ForEachProduct(const Case& c, const Visit& visit) {
  const Geometry& g = c.geometry;
  const int axes = static_cast<int>(g.kernel.size());
  const int64_t inputs = c.x[1] / g.group, outputs = c.y[1] / g.group;
  const int64_t positions = ShapeCount(c.x, 2), taps = ShapeCount(g.kernel);
  for (int64_t n = 0; n < c.x[0]; ++n) {
    for (int64_t channel = 0; channel < c.x[1]; ++channel) {
      for (int64_t p = 0; p < positions; ++p) {
        for (int64_t o = 0; o < outputs; ++o) {
          for (int64_t k = 0; k < taps; ++k) {
            int64_t rest_p = p, rest_k = k, at = 0, step = 1;
            bool inside = true;
            for (int a = axes - 1; a >= 0; --a) {
              const int64_t i = rest_p % c.x[2 + a] * g.stride[a] +
                                rest_k % g.kernel[a] * g.dilation[a] - g.pad[a];
              inside = inside && i >= 0 && i < c.y[2 + a];
              at += i * step;
              step *= c.y[2 + a];
              rest_p /= c.x[2 + a];
              rest_k /= g.kernel[a];
            }
            if (!inside) continue;
            visit((n * c.x[1] + channel) * positions + p, (channel * outputs + o) * taps + k,
                  (n * c.y[1] + channel / inputs * outputs + o) * step + at);
          }
        }
      }
    }
  }
}

std::vector<Case> Cases() {
  return {
      {"num_output: 4 kernel_size: 3 stride: 2",
       {2, 3, 3, 2},
       {2, 4, 7, 5},
       {{3, 3}, {2, 2}, {0, 0}, {1, 1}, 1}},
      {"num_output: 6 kernel_h: 3 kernel_w: 2 pad_h: 1 pad_w: 0 stride_h: 1 stride_w: 3 group: 3",
       {2, 3, 4, 3},
       {2, 6, 4, 8},
       {{3, 2}, {1, 3}, {1, 0}, {1, 1}, 3}},
      {"num_output: 2 kernel_size: 3 pad: 2 dilation: 2",
       {1, 5, 5, 6},
       {1, 2, 5, 6},
       {{3, 3}, {1, 1}, {2, 2}, {2, 2}, 1}},
      {"num_output: 3 kernel_size: 1",
       {3, 4, 5, 5},
       {3, 3, 5, 5},
       {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 1}},
      {"num_output: 2 kernel_size: 3 stride: 2", {2, 4, 4}, {2, 2, 9}, {{3}, {2}, {0}, {1}, 1}},
      {"num_output: 4 kernel_size: 2 kernel_size: 3 kernel_size: 2 stride: 2 pad: 1 group: 2",
       {2, 2, 2, 3, 2},
       {2, 4, 2, 5, 2},
       {{2, 3, 2}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1}, 2}},
      // Every channel alone.
      {"num_output: 4 kernel_size: 4 stride: 2 pad: 1 group: 4",
       {2, 4, 3, 5},
       {2, 4, 6, 10},
       {{4, 4}, {2, 2}, {1, 1}, {1, 1}, 4}},
      {"num_output: 2 kernel_size: 3 stride: 3 pad: 2 group: 2",
       {2, 6, 3, 4},
       {2, 2, 5, 8},
       {{3, 3}, {3, 3}, {2, 2}, {1, 1}, 2}},
  };
}

class DeconvolutionLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(DeconvolutionLayerTest, ForwardAndBackward) {
  const auto [device, type] = GetParam();
  const double master = type == kDouble ? Tolerance(kDouble) : 4 * Tolerance(kFloat);
  // cuDNN may store gradients of weights in `type` before they are added to masters.
  const bool rounds = device->backend() == "cuda";
  const double stored = rounds ? std::max(master, Tolerance(type)) : master;
  for (const Case& c : Cases()) {
    LayerTester layer(DeconvolutionText(c.text), device, TypeTriple::Equal(type), {c.x});
    layer.Forward();
    ASSERT_EQ(layer.top().shape(), c.y) << c.text;
    auto& blobs = layer.layer().blobs();
    Shape weights{c.x[1], c.y[1] / c.geometry.group};
    weights.insert(weights.end(), c.geometry.kernel.begin(), c.geometry.kernel.end());
    ASSERT_EQ(blobs[0]->shape(), weights) << c.text;
    const std::vector<double> x = layer.Bottom(0), w = blobs[0]->DataAsDouble();
    const std::vector<double> b = blobs[1]->DataAsDouble();
    std::vector<double> y(layer.top().count());
    const int64_t positions = ShapeCount(c.y, 2);
    for (size_t i = 0; i < y.size(); ++i) y[i] = b[i / positions % c.y[1]];
    ForEachProduct(c, [&](int64_t ix, int64_t iw, int64_t iy) { y[iy] += x[ix] * w[iw]; });
    // The sum is rounded once more before the bias.
    ExpectNear(layer.Top(), y, 3 * Tolerance(type), c.text);

    layer.RandomTopDiff();
    for (auto& blob : blobs) blob->SetDiff(std::vector<double>(blob->count(), 0.5));
    layer.Backward();
    const std::vector<double> d = layer.top().DiffAsDouble();
    std::vector<double> x_diff(x.size()), w_diff(w.size(), 0.5), b_diff(b.size(), 0.5);
    for (size_t i = 0; i < d.size(); ++i) b_diff[i / positions % c.y[1]] += d[i];
    ForEachProduct(c, [&](int64_t ix, int64_t iw, int64_t iy) {
      x_diff[ix] += d[iy] * w[iw];
      w_diff[iw] += d[iy] * x[ix];
    });
    ExpectNear(layer.BottomDiff(0), x_diff, 2 * Tolerance(type), "dE/dx of " + c.text);
    // Added in the type of masters, for every type of blobs.
    ExpectNear(blobs[0]->DiffAsDouble(), w_diff, stored, "dE/dw of " + c.text);
    ExpectNear(blobs[1]->DiffAsDouble(), b_diff, master, "dE/db of " + c.text);
  }
}

TEST_P(DeconvolutionLayerTest, SharesWeightsBetweenBottoms) {
  const auto [device, type] = GetParam();
  LayerTester layer(DeconvolutionText("num_output: 2 kernel_size: 3 bias_term: false"), device,
                    TypeTriple::Equal(type), {{2, 3, 4, 4}, {2, 3, 4, 4}}, 2);
  EXPECT_EQ(layer.layer().blobs().size(), 1u);
  layer.SetBottom(1, layer.Bottom(0));
  layer.Forward();
  EXPECT_EQ(layer.Top(0), layer.Top(1));
}

TEST_P(DeconvolutionLayerTest, FusedReLU) {
  const auto [device, type] = GetParam();
  for (const char* bias : {"true", "false"}) {
    LayerTester layer("phase: TEST " + DeconvolutionText(Concat(
                                           "num_output: 3 kernel_size: 2 bias_term: ", bias)),
                      device, TypeTriple::Equal(type), {{2, 3, 4, 3}});
    layer.Forward();
    std::vector<double> expected = layer.Top();
    for (double& y : expected) y = y > 0 ? y : 0;
    layer.ForwardWith({{}, {kPlainReLU}});
    ExpectNear(layer.Top(), expected, Tolerance(type), "y");
  }
}

TEST_P(DeconvolutionLayerTest, FollowsTheShapeOfItsBottom) {
  const auto [device, type] = GetParam();
  LayerTester layer(DeconvolutionText("num_output: 1 kernel_size: 2 stride: 2 bias_term: false"),
                    device, TypeTriple::Equal(type), {{1, 1, 2, 2}});
  layer.layer().blobs()[0]->SetData({0.5, 1, 0, 2});
  layer.Forward();
  layer.bottom().Reshape({1, 1, 1, 2});
  layer.SetBottom(0, {2, 4});
  layer.Forward();
  EXPECT_EQ(layer.top().shape(), Shape({1, 1, 2, 4}));
  EXPECT_EQ(layer.Top(), std::vector<double>({1, 2, 2, 4, 0, 4, 0, 8}));
}

// The purpose of the bilinear filler: a constant stays one, a ramp becomes a finer ramp.
TEST_P(DeconvolutionLayerTest, BilinearUpsampling) {
  const auto [device, type] = GetParam();
  LayerTester layer(
      "type: 'Deconvolution' convolution_param { num_output: 2 group: 2 kernel_size: 4 stride: 2 "
      "pad: 1 bias_term: false weight_filler { type: 'bilinear' } }",
      device, TypeTriple::Equal(type), {{1, 2, 3, 4}});
  std::vector<double> x;
  for (int i = 0; i < 12; ++i) x.push_back(3);
  for (int i = 0; i < 12; ++i) x.push_back(i % 4);
  layer.SetBottom(0, x);
  layer.Forward();
  ASSERT_EQ(layer.top().shape(), Shape({1, 2, 6, 8}));
  const std::vector<double> y = layer.Top();
  // The outermost row and column see a window that leaves the image.
  for (int h = 1; h < 5; ++h) {
    for (int w = 1; w < 7; ++w) {
      EXPECT_EQ(y[h * 8 + w], 3);
      EXPECT_EQ(y[48 + h * 8 + w], w / 2.0 - 0.25);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DeconvolutionLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(DeconvolutionLayerGradientTest, AgreesWithDifferences) {
  for (const Case& c : Cases()) {
    LayerTester layer(DeconvolutionText(c.text), Runtime::Get().cpu(), TypeTriple::Equal(kDouble),
                      {c.x});
    layer.CheckGradient();
  }
  LayerTester two(DeconvolutionText("num_output: 2 kernel_size: 2"), Runtime::Get().cpu(),
                  TypeTriple::Equal(kDouble), {{2, 2, 3, 3}, {2, 2, 3, 3}}, 2);
  two.CheckGradient();
}

TEST(DeconvolutionLayerShapeTest, NoSpatialAxes) {
  LayerTester layer(DeconvolutionText("num_output: 3"), Runtime::Get().cpu(),
                    TypeTriple::Equal(kDouble), {{4, 5}});
  EXPECT_EQ(layer.top().shape(), Shape({4, 3}));
  layer.CheckGradient();
}

TEST(DeconvolutionLayerShapeTest, BackwardInTheTestPhase) {
  LayerTester layer("phase: TEST " + DeconvolutionText("num_output: 2 kernel_size: 2"),
                    Runtime::Get().cpu(), TypeTriple::Equal(kDouble), {{1, 2, 3, 3}});
  layer.CheckGradient();
}

TEST(DeconvolutionLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto make = [](const std::string& text, const Shape& x = {1, 4, 2, 2}) {
    LayerTester(DeconvolutionText(text), Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {x});
  };
  EXPECT_NO_THROW(make("num_output: 2 kernel_size: 3 pad: 1"));
  for (const char* text : {
           "num_output: 2 kernel_size: 3 pad: 2",                   // nothing is left
           "num_output: 2 kernel_size: 3 stride: 0",                //
           "num_output: 2 kernel_size: 0",                          //
           "num_output: 2",                                         // no kernel
           "kernel_size: 3",                                        // no outputs
           "num_output: 6 kernel_size: 3 group: 3",                 // 4 channels
           "num_output: 3 kernel_size: 3 group: 2",                 //
           "num_output: 2 kernel_size: 3 group: 0",                 //
           "num_output: 2 kernel_size: 3 kernel_h: 3 kernel_w: 3",  // both forms
           "num_output: 2 kernel_size: 3 dilation: 0",              //
           "num_output: 2 kernel_size: 3 pad: 1 pad: 1 pad: 1",     // for two axes
       }) {
    EXPECT_THROW(make(text), Error) << text;
  }
  EXPECT_THROW(make("num_output: 2 kernel_h: 3 kernel_w: 3", {1, 4, 5}), Error);
}

}  // namespace
}  // namespace caffe

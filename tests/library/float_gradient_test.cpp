// Gradients of convolutions by matrix units, or by the loops that stand for them, against their
// definition in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/library/generated/float_gradient.hpp"
#include "caffe/library/libraries.hpp"
#include "library/layout_runs.hpp"
#include "library/library_support.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

using test::Array;
using test::Values;

std::vector<DeviceType> CompiledDevices() {
  std::vector<DeviceType> devices;
  for (const DeviceType& one : DevicesAndTypes({kFloat, kHalf, kBfloat16})) {
    if (one.device->host_accessible() || !IsTested(*one.device, one.type)) continue;
    devices.push_back(one);
  }
  return devices;
}

struct Gradients {
  std::vector<double> x, w, b;
};

// In C order; x and y_diff, too. `w_diff` and `b_diff` are what the gradients are added to.
Gradients Exact(const ConvDescriptor& d, const std::vector<double>& x, const std::vector<double>& w,
                const std::vector<double>& y_diff, double w_diff, double b_diff) {
  const auto window = MatrixProduct::Window::Of(d.geometry);
  const int64_t per_in = d.in_channels / d.group, per_out = d.out_channels / d.group;
  const int64_t taps = window.kernel[0] * window.kernel[1];
  Gradients g{std::vector<double>(x.size()), std::vector<double>(w.size(), w_diff),
              std::vector<double>(d.out_channels, b_diff)};
  int64_t at = 0;
  for (int64_t n = 0; n < d.batch; ++n) {
    for (int64_t c = 0; c < d.out_channels; ++c) {
      for (int64_t oh = 0; oh < window.output[0]; ++oh) {
        for (int64_t ow = 0; ow < window.output[1]; ++ow) {
          const double y = y_diff[at++];
          g.b[c] += y;
          for (int64_t tap = 0; tap < taps; ++tap) {
            const int64_t h =
                oh * window.stride[0] - window.pad[0] + tap / window.kernel[1] * window.dilation[0];
            const int64_t u =
                ow * window.stride[1] - window.pad[1] + tap % window.kernel[1] * window.dilation[1];
            if (h < 0 || h >= window.input[0] || u < 0 || u >= window.input[1]) continue;
            for (int64_t i = 0; i < per_in; ++i) {
              const int64_t channel = n * d.in_channels + c / per_out * per_in + i;
              const int64_t from = (channel * window.input[0] + h) * window.input[1] + u;
              const int64_t weight = (c * per_in + i) * taps + tap;
              g.x[from] += y * w[weight];
              g.w[weight] += y * x[from];
            }
          }
        }
      }
    }
  }
  return g;
}

std::vector<double> Room(int64_t bytes) { return std::vector<double>(bytes / 4 + 1); }

class FloatGradientTest : public testing::TestWithParam<DeviceType> {
 protected:
  // By loops, types differ only in how elements are loaded.
  void SetUp() override {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    const bool many = name.starts_with("EveryTile") || name.starts_with("RandomWindows");
    if (!device()->info().matrix && type() != kHalf && many) GTEST_SKIP() << "as in half";
  }
  Device* device() const { return GetParam().device; }
  DataType type() const { return GetParam().type; }
  ConvDescriptor Window(int64_t batch, int64_t in, Shape input, int64_t out, Shape kernel,
                        Shape stride = {}, Shape pad = {}, Shape dilation = {},
                        int64_t group = 1) const {
    ConvDescriptor d;
    d.batch = batch;
    d.in_channels = in;
    d.out_channels = out;
    d.group = group;
    d.geometry.input = std::move(input);
    d.geometry.kernel = std::move(kernel);
    d.geometry.stride = std::move(stride);
    d.geometry.pad = std::move(pad);
    d.geometry.dilation = std::move(dilation);
    d.in = d.out = type();
    d.epilogue.bias = Epilogue::Bias::kPerRow;
    d.x_layout = d.y_layout = Layout::kNHWC;
    d.backward_data = d.backward_weights = true;
    d.Normalize();
    return d;
  }

  void Check(const ConvDescriptor& d, double large = 1) {
    const int64_t in = d.geometry.input_count(), out = d.geometry.output_count();
    auto x = Values(d.batch * d.in_channels * in, 1), w = Values(d.weight_count(), 2);
    const auto y_diff = Values(d.batch * d.out_channels * out, 3);
    for (double& value : x) value *= large;
    const Gradients exact = Exact(d, x, w, y_diff, 0.5, -0.25);
    const auto op = MakeMatrixConvolution(device(), d);
    const Array weights(device(), type(), w),
        prepared(device(), kFloat, Room(op->prepared_bytes()));
    const Array workspace(device(), kFloat, Room(op->workspace_bytes()));
    const Array from(device(), type(), test::InLayout(x, d.x_layout, d.in_channels, in));
    const Array change(device(), type(), test::InLayout(y_diff, d.y_layout, d.out_channels, out));
    op->Prepare(weights, prepared);
    std::vector<std::vector<double>> first;
    for (int run = 0; run < 2; ++run) {
      const Array x_diff(device(), type(), std::vector<double>(x.size(), 9));
      const Array w_diff(device(), kFloat, std::vector<double>(w.size(), 0.5));
      const Array b_diff(device(), kFloat, std::vector<double>(d.out_channels, -0.25));
      ConvGradients g{from, weights, prepared, change};
      g.x_diff = x_diff;
      g.w_diff = w_diff;
      g.b_diff = b_diff;
      g.workspace = workspace;
      if (d.backward_data) op->BackwardData(g);
      op->BackwardWeights(g);
      op->BackwardBias(g);
      const std::vector<std::vector<double>> found{x_diff.Read(), w_diff.Read(), b_diff.Read()};
      if (run == 1) {
        EXPECT_EQ(found, first) << d.key() << ": two runs differ";
        return;
      }
      first = found;
      if (d.backward_data) {
        test::ExpectNear(found[0], test::InLayout(exact.x, d.x_layout, d.in_channels, in),
                         test::Tolerance(type()), "x_diff of " + d.key());
      }
      test::ExpectNear(found[1], exact.w, test::Tolerance(kFloat), "w_diff of " + d.key());
      test::ExpectNear(found[2], exact.b, test::Tolerance(kFloat), "b_diff of " + d.key());
    }
  }
};

TEST_P(FloatGradientTest, Windows) {
  Check(Window(2, 16, {6, 5}, 24, {3, 3}, {}, {1, 1}));
  Check(Window(1, 8, {9, 7}, 70, {3, 2}, {2, 1}, {1, 0}));  // another row and column tile
  Check(Window(2, 80, {7, 8}, 16, {1, 1}, {2, 2}));         // positions without a window
  Check(Window(2, 16, {7, 7}, 16, {3, 3}, {1, 1}, {2, 2}, {2, 2}));
  Check(Window(1, 32, {5, 5}, 64, {3, 3}, {2, 2}, {1, 1}, {}, 2));
  Check(Window(9, 24, {1}, 40, {1}));             // a product of matrices
  Check(Window(2, 12, {11}, 20, {5}, {2}, {2}));  // one axis
  Check(Window(1, 6, {4, 4}, 10, {2, 2}));        // words of 4 bytes
}

TEST_P(FloatGradientTest, ImagesInCOrder) {
  ConvDescriptor d = Window(2, 3, {19, 17}, 32, {5, 5}, {2, 2}, {1, 2});
  d.x_layout = Layout::kNCHW;
  d.backward_data = false;
  Check(d);
  d = Window(2, 3, {17, 15}, 16, {3, 3}, {}, {1, 1});
  d.x_layout = Layout::kNCHW;
  d.backward_data = false;
  Check(d);
}

// Sums that half cannot hold: those of weights, and those of x on the way to a small result.
TEST_P(FloatGradientTest, LargeValues) {
  if (type() == kFloat) GTEST_SKIP() << "for half kinds";
  Check(Window(2, 16, {8, 8}, 16, {3, 3}, {}, {1, 1}), 0x1p14);
  const ConvDescriptor d = Window(1, 16, {1}, 32, {1});
  const auto op = MakeMatrixConvolution(device(), d);
  std::vector<double> w(d.weight_count(), 256), y_diff(d.out_channels);
  for (int64_t o = 0; o < d.out_channels; ++o) y_diff[o] = o < 16 ? 1024 : o < 31 ? -1024 : -1023;
  const Array weights(device(), type(), w), prepared(device(), kFloat, Room(op->prepared_bytes()));
  const Array workspace(device(), kFloat, Room(op->workspace_bytes()));
  const Array change(device(), type(), y_diff), x_diff(device(), type(), std::vector<double>(16));
  op->Prepare(weights, prepared);
  ConvGradients g{x_diff, weights, prepared, change};
  g.x_diff = x_diff;
  g.workspace = workspace;
  op->BackwardData(g);
  const double last = type() == kHalf ? -1023 : -1024;  // bfloat16 has 8 bits
  EXPECT_EQ(x_diff.Read(), std::vector<double>(16, 256 * (1024 + last)));
}

// Positions that no window reads, at the edge of padding wider than a window.
TEST_P(FloatGradientTest, PaddingOfMoreThanAWindowIsLeftToOthers) {
  const ConvDescriptor d = Window(1, 16, {6, 6}, 16, {2, 2}, {}, {2, 1});
  EXPECT_THROW(MakeMatrixConvolution(device(), d), Error);
}

TEST_P(FloatGradientTest, RandomWindows) {
  std::mt19937 random(7);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  for (int i = 0; i < (device()->info().matrix ? 20 : 4); ++i) {
    const int64_t group = below(4) == 0 ? 2 : 1, unit = type() == kFloat ? 1 : 2;
    const int64_t in = (16 + unit * below(40)) * group, out = (16 + unit * below(90)) * group;
    const Shape kernel{1 + below(4), 1 + below(4)}, dilation{1 + below(2), 1 + below(2)};
    const Shape stride{1 + below(3), 1 + below(3)};
    const Shape pad{below(kernel[0]), below(kernel[1])};
    Check(Window(1 + below(3), in, {8 + below(9), 8 + below(9)}, out, kernel, stride, pad, dilation,
                 group));
  }
}

// Every tile, by one work group and by several.
TEST_P(FloatGradientTest, EveryTile) {
  const ConvDescriptor d = Window(2, 40, {9, 8}, 72, {2, 3}, {}, {1, 1});
  MatrixProduct::Problem p;
  p.type = p.out = type();
  p.batch = d.batch;
  p.window = MatrixProduct::Window::Of(d.geometry);
  p.channels = p.plain_channels = d.in_channels;
  p.out_channels = p.y_row = d.out_channels;
  std::copy_n(p.window.kernel, 2, p.plain_kernel);
  const int64_t in = d.geometry.input_count(), out = d.geometry.output_count();
  const auto x = Values(d.batch * d.in_channels * in, 1), w = Values(d.weight_count(), 2);
  const auto y_diff = Values(d.batch * d.out_channels * out, 3);
  const Gradients exact = Exact(d, x, w, y_diff, 0, 0);
  const Array from(device(), type(), test::InLayout(x, Layout::kNHWC, d.in_channels, in));
  const Array change(device(), type(), test::InLayout(y_diff, Layout::kNHWC, d.out_channels, out));
  for (const int tile : FloatGradient::Tilings(device(), p)) {
    for (const int64_t parts : {1, 2, 5}) {
      FloatGradient gradient(device(), p, tile, parts);
      const Array workspace(device(), kFloat, Room(gradient.workspace_bytes()));
      const Array w_diff(device(), kFloat, std::vector<double>(w.size(), 7));
      gradient.Run({change, from, w_diff, workspace, 1, 0});
      test::ExpectNear(w_diff.Read(), exact.w, test::Tolerance(kFloat),
                       "tile " + std::to_string(tile) + ", parts " + std::to_string(parts));
    }
  }
}

// The products of an inner product's gradients.
TEST_P(FloatGradientTest, Products) {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{24, 40, 32}, {70, 16, 96}, {130, 72, 64}}) {
    using Weights = GemmDescriptor::Weights;
    const std::pair<bool, Weights> cases[]{{true, Weights::kNone},
                                           {false, Weights::kNone},
                                           {false, Weights::kA},
                                           {false, Weights::kB}};
    for (const auto& [gradient, constant] : cases) {
      GemmDescriptor d;
      d.constant = constant;
      d.in = type();
      d.out = gradient ? DataType(kFloat) : type();
      d.trans_a = gradient;
      d.m = m;
      d.n = n;
      d.k = k;
      const auto a = Values(m * k, 1), b = Values(k * n, 2), c = Values(m * n, 3);
      std::vector<double> expected;
      for (int64_t i = 0; i < m * n; ++i) {
        double sum = 0;
        for (int64_t t = 0; t < k; ++t) {
          sum += a[gradient ? t * m + i / n : i / n * k + t] * b[t * n + i % n];
        }
        expected.push_back(0.5 * sum + 2 * c[i]);
      }
      const auto op = MakeMatrixGemm(device(), d);
      const Array workspace(device(), kFloat, Room(op->workspace_bytes()));
      const Array x(device(), type(), a), w(device(), type(), b), y(device(), d.out, c);
      GemmArguments g{x, w, y};
      g.alpha = 0.5;
      g.beta = 2;
      const Array prepared(device(), kFloat, Room(op->prepared_bytes()));
      EXPECT_EQ(op->prepared_bytes() > 0, constant == Weights::kB) << d.key();
      if (op->prepared_bytes() > 0) {
        op->Prepare(w, prepared);
        g.prepared = prepared;
      }
      g.workspace = workspace;
      op->Run(g);
      test::ExpectNear(y.Read(), expected, test::Tolerance(d.out), d.key());
    }
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FloatGradientTest);
INSTANTIATE_TEST_SUITE_P(All, FloatGradientTest, testing::ValuesIn(CompiledDevices()),
                         [](const auto& tested) { return TestName(tested.param); });

}  // namespace
}  // namespace caffe

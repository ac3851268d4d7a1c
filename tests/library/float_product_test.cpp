// Products of floats by matrix units, or by the loops that stand for them, against their definition
// in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "caffe/device/null_device.hpp"
#include "caffe/library/fallback.hpp"
#include "caffe/library/generated/float_product.hpp"
#include "caffe/library/generated/vector_product.hpp"
#include "caffe/library/libraries.hpp"
#include "library/layout_runs.hpp"
#include "library/library_support.hpp"
#include "support/devices.hpp"
#include "support/epilogues.hpp"
#include "support/plain_kernels.hpp"

namespace caffe {
namespace {

using test::Array;
using Bias = Epilogue::Bias;
using Kind = ElementFunction::Kind;

std::vector<DeviceType> CompiledDevices() {
  std::vector<DeviceType> devices;
  for (const DeviceType& one : DevicesAndTypes({kFloat, kHalf, kBfloat16})) {
    if (!one.device->host_accessible()) devices.push_back(one);
  }
  return devices;
}

// Numbers whose mantissas use all digits of the type.
std::vector<double> Numbers(DataType type, int64_t count, uint32_t seed) {
  std::mt19937 bits(seed);
  std::vector<float> wide(count);
  for (float& value : wide) value = static_cast<float>(bits()) / 2147483648.0f - 1;
  std::vector<char> bytes(count * type.bytes());
  ConvertElements(kFloat, wide.data(), type, bytes.data(), count);
  std::vector<double> values(count);
  ConvertElements(type, bytes.data(), kDouble, values.data(), count);
  return values;
}

class FloatProductTest : public testing::TestWithParam<DeviceType> {
 protected:
  // By loops, bfloat16 differs from half only in how elements are loaded.
  void SetUp() override {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    const bool loads = name.starts_with("EveryTile") || name.starts_with("WindowsOf");
    if (!has_units() && type() == kBfloat16 && !loads) GTEST_SKIP() << "as in half";
  }
  Device* device() const { return GetParam().device; }
  DataType type() const { return GetParam().type; }
  bool has_units() const { return device()->info().matrix; }
  // Relative to the largest result; that of sums, and that of rounding results to `out`.
  double Tolerance(DataType out) const { return std::max(2e-6, test::Tolerance(out)); }

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
    d.epilogue.bias = Bias::kPerRow;
    d.y_layout = Layout::kNHWC;
    d.Normalize();
    return d;
  }

  // Results in kNHWC; x, weights and residual are in C order.
  static std::vector<double> Exact(const ConvDescriptor& d, const std::vector<double>& x,
                                   const std::vector<double>& w, const std::vector<double>& bias,
                                   const std::vector<double>& residual,
                                   const std::vector<double>& slopes) {
    const auto window = MatrixProduct::Window::Of(d.geometry);
    const int64_t per_in = d.in_channels / d.group, per_out = d.out_channels / d.group;
    const int64_t taps = window.kernel[0] * window.kernel[1];
    std::vector<double> y;
    for (int64_t n = 0; n < d.batch; ++n) {
      for (int64_t oh = 0; oh < window.output[0]; ++oh) {
        for (int64_t ow = 0; ow < window.output[1]; ++ow) {
          for (int64_t c = 0; c < d.out_channels; ++c) {
            double v = d.epilogue.bias == Bias::kNone ? 0 : bias[c];
            for (int64_t tap = 0; tap < taps; ++tap) {
              const int64_t h = oh * window.stride[0] - window.pad[0] +
                                tap / window.kernel[1] * window.dilation[0];
              const int64_t u = ow * window.stride[1] - window.pad[1] +
                                tap % window.kernel[1] * window.dilation[1];
              if (h < 0 || h >= window.input[0] || u < 0 || u >= window.input[1]) continue;
              for (int64_t i = 0; i < per_in; ++i) {
                const int64_t channel = n * d.in_channels + c / per_out * per_in + i;
                v += x[(channel * window.input[0] + h) * window.input[1] + u] *
                     w[(c * per_in + i) * taps + tap];
              }
            }
            const double slope = slopes[d.epilogue.slopes == Bias::kNone ? 0 : c];
            y.push_back(test::Stages(d.epilogue, v, residual[y.size()], slope));
          }
        }
      }
    }
    return y;
  }

  // x in both layouts; y are the channels from `first` on of an array with `pitch` channels.
  void CheckConvolution(ConvDescriptor d, int64_t pitch = 0, int64_t first = 0) {
    const int64_t out = d.geometry.output_count(), positions = d.batch * out;
    const auto x = Numbers(type(), d.batch * d.in_channels * d.geometry.input_count(), 1);
    const auto w = Numbers(type(), d.weight_count(), 2);
    const auto bias = Numbers(kFloat, d.out_channels, 3);
    const auto slopes = Numbers(kFloat, d.out_channels, 4);
    const auto residual = Numbers(d.out, positions * d.out_channels, 5);  // in kNHWC
    const std::vector<double> exact = Exact(d, x, w, bias, residual, slopes);
    d.y_pitch = pitch;
    const int64_t row = d.y_row();
    std::vector<double> expected(positions * row, -7);
    for (int64_t i = 0; i < static_cast<int64_t>(exact.size()); ++i) {
      expected[i / d.out_channels * row + first + i % d.out_channels] = exact[i];
    }
    const Array weights(device(), type(), w), biases(device(), kFloat, bias);
    const Array added(device(), d.out, residual), leaks(device(), kFloat, slopes);
    for (const Layout layout : {Layout::kNCHW, Layout::kNHWC}) {
      if (layout == Layout::kNCHW && d.group > 1) continue;
      d.x_layout = layout;
      const Array from(device(), type(),
                       test::InLayout(x, layout, d.in_channels, d.geometry.input_count()));
      const Array y(device(), d.out, std::vector<double>(expected.size(), -7));
      const auto op = MakeMatrixConvolution(device(), d);
      test::Memory memory(device(), op.get());
      ConvArguments forward{from, weights, {}, {}, y};
      if (d.epilogue.bias != Bias::kNone) forward.bias = biases;
      forward.y = forward.y + first * static_cast<int64_t>(d.out.bytes());
      forward.epilogue = {added, leaks};
      op->Forward(memory(forward));
      test::ExpectNear(y.Read(), expected, Tolerance(d.out),
                       device()->info().id + " " + d.name() + d.epilogue.name());
    }
  }

  // The problem for arrays in kNHWC.
  static MatrixProduct::Problem ProblemOf(const ConvDescriptor& d) {
    MatrixProduct::Problem p;
    p.type = d.in;
    p.out = d.out;
    p.batch = d.batch;
    p.window = MatrixProduct::Window::Of(d.geometry);
    p.channels = d.in_channels;
    p.out_channels = p.y_row = d.out_channels;
    p.group = d.group;
    p.row_groups = d.row_groups;
    p.epilogue = d.epilogue;
    std::copy_n(p.window.kernel, 2, p.plain_kernel);
    p.plain_channels = d.in_channels / d.group;
    return p;
  }

  // `parts` work groups divide the depth. Launches share the counters, and their results are equal.
  void CheckParts(const ConvDescriptor& d, int tile, int64_t parts) {
    const int64_t positions = d.batch * d.geometry.output_count();
    const auto x = Numbers(type(), d.batch * d.in_channels * d.geometry.input_count(), 1);
    const auto w = Numbers(type(), d.weight_count(), 2);
    const auto bias = Numbers(kFloat, d.out_channels, 3);
    const auto slopes = Numbers(kFloat, d.out_channels, 4);
    const auto residual = Numbers(d.out, positions * d.out_channels, 5);
    const std::vector<double> expected = Exact(d, x, w, bias, residual, slopes);
    const Array from(device(), type(),
                     test::InLayout(x, Layout::kNHWC, d.in_channels, d.geometry.input_count()));
    const Array weights(device(), type(), w), biases(device(), kFloat, bias);
    const Array added(device(), d.out, residual), leaks(device(), kFloat, slopes);
    FloatProduct product(device(), ProblemOf(d), tile, parts);
    const test::Bytes packed(device(), product.packed_bytes());
    const test::Bytes workspace(device(), product.workspace_bytes());
    if (product.packed_bytes() > 0) product.Pack(weights, packed);
    std::vector<double> first;
    for (int launch = 0; launch < 3; ++launch) {
      const Array y(device(), d.out, std::vector<double>(expected.size(), -7));
      device()->Fill(workspace, 0x7f, product.workspace_bytes());
      const DevicePtr matrix = product.packed_bytes() > 0 ? DevicePtr(packed) : DevicePtr(weights);
      product.Run({from, matrix, biases, y, {added, leaks}, 1, 0, {}, workspace});
      test::ExpectNear(
          y.Read(), expected, Tolerance(d.out),
          Concat(device()->info().id, " ", d.name(), ", tile ", tile, " in ", parts, " parts"));
      if (launch == 0) first = y.Read();
      EXPECT_EQ(y.Read(), first);
    }
  }

  // C = alpha A B^T + beta C + bias, with results of type `out`.
  void CheckProduct(int64_t m, int64_t n, int64_t k, DataType out, double alpha = 1,
                    double beta = 0, double tolerance = 0) {
    GemmDescriptor d;
    d.m = m;
    d.n = n;
    d.k = k;
    d.trans_b = true;
    d.in = type();
    d.out = out;
    d.constant = GemmDescriptor::Weights::kB;
    d.epilogue.bias = Bias::kPerColumn;
    const auto a = Numbers(type(), m * k, 1), b = Numbers(type(), n * k, 2);
    const auto bias = Numbers(kFloat, n, 3), before = Numbers(out, m * n, 4);
    const Array da(device(), type(), a), db(device(), type(), b), dbias(device(), kFloat, bias);
    const Array c(device(), out, before);
    const auto op = MakeMatrixGemm(device(), d);
    GemmArguments product{da, db, c, dbias, alpha, beta};
    test::Run(*op, device(), product);
    std::vector<double> expected;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double v = 0;
        for (int64_t p = 0; p < k; ++p) v += a[i * k + p] * b[j * k + p];
        expected.push_back(alpha * v + beta * before[i * n + j] + bias[j]);
      }
    }
    test::ExpectNear(c.Read(), expected, tolerance > 0 ? tolerance : Tolerance(out),
                     device()->info().id + " " + d.name());
  }
};

// Every way of dividing the result: whole tiles and ones that stick out, depths that end anywhere.
TEST_P(FloatProductTest, EveryTile) {
  // With optimization PoCL 5.0 on AVX-512 gave NaN for the last column of the tile of 128 x 32.
  const PlainKernels plain;
  struct Sizes {
    int64_t m, n, k;
  };
  MatrixProduct::Problem problem;
  problem.type = problem.out = type();
  for (const int tile : FloatProduct::Tilings(device(), problem)) {
    // PoCL takes two seconds for each.
    if (!has_units() && type() != kFloat && tile % 2 != (type() == kHalf ? 0 : 1)) continue;
    for (const auto& [m, n, k] : {Sizes{1, 1, 8}, {130, 136, 200}}) {
      problem.batch = m;
      problem.channels = problem.plain_channels = k;
      problem.out_channels = problem.y_row = n;
      const auto a = Numbers(type(), m * k, 1), b = Numbers(type(), n * k, 2);
      const Array da(device(), type(), a), db(device(), type(), b);
      const Array c(device(), type(), std::vector<double>(m * n, 7));
      FloatProduct(device(), problem, tile).Run({da, db, {}, c});
      std::vector<double> expected(m * n);
      for (int64_t i = 0; i < m * n; ++i) {
        for (int64_t p = 0; p < k; ++p) expected[i] += a[i / n * k + p] * b[i % n * k + p];
      }
      test::ExpectNear(c.Read(), expected, Tolerance(type()),
                       Concat(device()->info().id, " ", type().name(), ", tile ", tile));
    }
  }
}

// The same for images in C order, with one or two tiles of columns.
TEST_P(FloatProductTest, EveryTileOfImages) {
  if (!has_units() && type() != kFloat) return;
  const int64_t height = has_units() ? 30 : 9, width = has_units() ? 25 : 10;
  for (const int64_t out : {40, 90}) {
    // PoCL takes long for each.
    if (!has_units() && out > 40) continue;
    ConvDescriptor d = Window(1, 3, {height, width}, out, {7, 7}, {2, 2}, {3, 3});
    d.epilogue.bias = Bias::kNone;
    MatrixProduct::Problem plain;
    plain.type = plain.out = type();
    plain.window = MatrixProduct::Window::Of(d.geometry);
    plain.channels = 3;
    plain.out_channels = plain.y_row = out;
    const auto problem = FloatProduct::OfImages(plain);
    ASSERT_TRUE(problem);
    const auto x = Numbers(type(), 3 * height * width, 1), w = Numbers(type(), d.weight_count(), 2);
    const std::vector<double> none(d.geometry.output_count() * out);
    const std::vector<double> expected = Exact(d, x, w, none, none, none);
    const Array from(device(), type(), x), weights(device(), type(), w);
    for (const int tile : FloatProduct::Tilings(device(), *problem)) {
      if (!has_units() && tile % 3 != 0) continue;
      const Array y(device(), type(), none);
      FloatProduct product(device(), *problem, tile);
      const test::Bytes packed(device(), product.packed_bytes());
      product.Pack(weights, packed);
      product.Run({from, packed, {}, y});
      test::ExpectNear(y.Read(), expected, Tolerance(type()),
                       Concat(device()->info().id, " ", d.name(), ", tile ", tile));
    }
  }
}

// The same for windows: groups of channels, strides, dilation, depths that end within a step,
// stages, and results in float; one part or two.
TEST_P(FloatProductTest, EveryTileOfWindows) {
  const PlainKernels plain;
  std::vector<ConvDescriptor> cases{Window(2, 48, {9, 8}, 140, {3, 2}, {1, 2}, {2, 0}, {2, 1}, 2)};
  cases[0].epilogue.stages = {ResidualSum{0.5f}, ElementFunction{Kind::kPReLU}};
  cases[0].epilogue.slopes = Bias::kPerRow;
  if (has_units()) {
    // Vectors of 4 and 8 bytes, points, and more than one tile of rows and columns.
    cases.push_back(Window(3, 12, {9, 11}, 34, {5, 5}, {2, 2}, {2, 2}, {}, 2));
    cases.push_back(Window(3, 20, {13, 13}, 70, {3, 3}, {}, {1, 1}));
    cases.push_back(Window(8, 136, {9, 9}, 260, {1, 1}));
    cases.push_back(Window(5, 96, {13, 13}, 264, {3, 3}, {}, {1, 1}, {}, 2));
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    for (const int tile : FloatProduct::Tilings(device(), ProblemOf(cases[i]))) {
      // PoCL takes seconds for each. These are others in each type.
      const int own = type() == kHalf ? 0 : type() == kBfloat16 ? 1 : 2;
      if (!has_units() && tile % 3 != own) continue;
      if (i > 0 && (tile + i + own) % 2 != 0) continue;
      ConvDescriptor d = cases[i];
      d.out = tile % 2 ? type() : kFloat;
      CheckParts(d, tile, i > 0 ? 1 : 1 + tile / 2 % 2);
    }
  }
}

// Windows with a patch of images: tiles with parts of several images, strides, dilation, groups,
// depths that end within a step; one block of channels, or several.
TEST_P(FloatProductTest, EveryTileOfPatches) {
  if (type() == kFloat) GTEST_SKIP() << "half kinds alone have patches";
  const PlainKernels plain;
  constexpr int64_t word = 8;  // elements of a chunk
  std::vector<ConvDescriptor> cases{
      Window(3, 3 * word, {7, 6}, 20, {3, 3}, {}, {1, 1}),
      Window(2, 20 * word, {9, 8}, 40, {3, 2}, {1, 2}, {2, 0}, {2, 1}, 2),
      Window(1, 6 * word, {5, 60}, 72, {5, 5}, {}, {2, 2})};
  if (has_units()) {
    cases.push_back(Window(40, 12 * word, {13, 13}, 130, {3, 3}, {}, {1, 1}, {}, 2));
    cases.push_back(Window(5, 6 * word, {27, 27}, 256, {5, 5}, {}, {2, 2}, {}, 2));
    cases.push_back(Window(3, 8 * word, {16, 11}, 33, {5, 5}, {2, 2}, {2, 2}));
  }
  bool one = false, several = false;
  for (size_t i = 0; i < cases.size(); ++i) {
    const ConvDescriptor& d = cases[i];
    const MatrixProduct::Problem problem = ProblemOf(d);
    const auto x = Numbers(type(), d.batch * d.in_channels * d.geometry.input_count(), 1);
    const auto w = Numbers(type(), d.weight_count(), 2);
    const auto bias = Numbers(kFloat, d.out_channels, 3);
    const std::vector<double> none(d.batch * d.geometry.output_count() * d.out_channels);
    const std::vector<double> expected = Exact(d, x, w, bias, none, {0});
    const Array from(device(), type(),
                     test::InLayout(x, Layout::kNHWC, d.in_channels, d.geometry.input_count()));
    const Array weights(device(), type(), w), biases(device(), kFloat, bias);
    const std::vector<int> tilings = FloatProduct::PatchTilings(problem);
    ASSERT_FALSE(tilings.empty()) << d.name();
    for (size_t k = 0; k < tilings.size(); ++k) {
      // PoCL takes seconds for each.
      if (!has_units() && (k + i) % (type() == kHalf ? 2 : 3) != 0) continue;
      const Array y(device(), type(), std::vector<double>(none.size(), -7));
      FloatProduct product(device(), problem, tilings[k]);
      (product.patch()->blocks == 1 ? one : several) = true;
      const test::Bytes packed(device(), product.packed_bytes());
      product.Pack(weights, packed);
      product.Run({from, packed, biases, y});
      test::ExpectNear(y.Read(), expected, Tolerance(type()),
                       Concat(device()->info().id, " ", d.name(), ", tile ", tilings[k]));
    }
  }
  EXPECT_TRUE(one && several);
}

// Rows that are read as they are, and ones that are packed; sums of the result and C.
TEST_P(FloatProductTest, ProductsOfManyShapes) {
  CheckProduct(37, 33, 102, type());
  if (!has_units() && type() != kFloat) return;
  CheckProduct(37, 33, 104, type());
  CheckProduct(5, 70, 1004, kFloat, -0.5, 2);
}

// The error is that of float, however many products are added. Matrix units cut off digits of the
// sums of half kinds, whose operands have fewer digits.
TEST_P(FloatProductTest, DeepSums) {
  const int64_t m = has_units() ? 64 : 9, n = has_units() ? 96 : 5;
  CheckProduct(m, n, 9216, kFloat, 1, 0, type() == kFloat ? 3e-6 : 3e-5);
  CheckProduct(1, 16, 9216, kFloat, 1, 0, 3e-6);
}

// Work groups that divide a depth of 9 to 72 steps, with each way of dividing the result.
TEST_P(FloatProductTest, PartsOfDepths) {
  ConvDescriptor d = Window(1, 72, {5, 4}, 40, {3, 3}, {2, 1}, {1, 1});
  d.epilogue.stages = {ResidualSum{0.5f}, ElementFunction{Kind::kPReLU}};
  d.epilogue.slopes = Bias::kPerRow;
  const std::vector<int> tilings = FloatProduct::Tilings(device(), ProblemOf(d));
  const int last = tilings.back();
  for (const int tile : tilings) {
    if (!has_units() && (tile != last || type() != kFloat)) continue;
    CheckParts(d, tile, 2 + tile % 3);
  }
  CheckParts(Window(2, 96, {4, 5}, 64, {2, 3}, {1, 2}, {1, 0}, {2, 1}, 2), last, 3);
  if (!has_units() && type() != kFloat) return;
  // A step for each.
  CheckParts(Window(1, 640, {3, 3}, 24, {1, 1}), last, type() == kFloat ? 10 : 5);
  CheckParts(Window(3, 8, {6, 5}, 100, {5, 3}, {}, {2, 1}), last, 2);
}

// Products whose estimate divides depths, on devices with matrix units.
TEST_P(FloatProductTest, SmallResultsAreComputedInParts) {
  if (!has_units()) GTEST_SKIP() << device()->info().id << " has no matrix units";
  const ConvDescriptor d = Window(1, 256, {13, 13}, 384, {3, 3}, {}, {1, 1});
  EXPECT_GT(FloatProduct(device(), ProblemOf(d)).workspace_bytes(), 0);
  CheckConvolution(d);
  CheckConvolution(Window(1, 384, {13, 13}, 256, {3, 3}, {}, {1, 1}, {}, 2));
  CheckProduct(20, 64, 9216, type());
}

// Items that share channels, the last of which are fewer; depths that end within a step.
TEST_P(FloatProductTest, FewRows) {
  struct Case {
    int64_t m, n, k;
    VectorProduct::Division division;
  };
  const int64_t most = type() == kFloat ? 4 : 2;
  std::vector<Case> cases{{1, 37, 1048, {2, 32}}, {most, 9, 4112, {4, 256}}};
  if (has_units() || type() == kFloat) cases.push_back({2, 40, 72, {1, 64}});
  for (int64_t m = 1; m <= most && has_units(); ++m) cases.push_back({m, 1000, 4096, {2, 128}});
  for (const auto& [m, n, k, division] : cases) {
    MatrixProduct::Problem problem;
    problem.type = problem.out = type();
    problem.batch = m;
    problem.channels = problem.plain_channels = k;
    problem.out_channels = n;
    problem.y_row = n + 3;
    ASSERT_TRUE(VectorProduct::Computes(problem));
    const auto a = Numbers(type(), m * k, 1), b = Numbers(type(), n * k, 2);
    const auto before = Numbers(type(), m * (n + 3), 3);
    const Array da(device(), type(), a), db(device(), type(), b), c(device(), type(), before);
    VectorProduct(device(), problem, division).Run({da, db, {}, c, {}, 0.5, 2});
    std::vector<double> expected = before;
    for (int64_t i = 0; i < m * n; ++i) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += a[i / n * k + p] * b[i % n * k + p];
      double& v = expected[i / n * (n + 3) + i % n];
      v = 0.5 * sum + 2 * v;
    }
    test::ExpectNear(c.Read(), expected, Tolerance(type()),
                     Concat(device()->info().id, " ", type().name(), " ", m, "x", n, "x", k));
  }
}

TEST_P(FloatProductTest, WindowsStridesPadsDilationsAndGroups) {
  CheckConvolution(Window(2, 32, {6, 7}, 32, {3, 3}, {1, 1}, {2, 2}, {2, 3}, 2));
  if (!has_units() && type() != kFloat) return;
  CheckConvolution(Window(1, 24, {9, 9}, 20, {3, 3}, {2, 2}, {1, 1}));
  CheckConvolution(Window(2, 5, {9, 8}, 7, {3, 3}, {1, 1}, {1, 1}, {2, 2}));
  CheckConvolution(Window(2, 64, {5, 4}, 48, {1, 1}, {2, 2}));
  CheckConvolution(Window(2, 4, {17}, 4, {4}, {3}, {2}, {2}));
  CheckConvolution(Window(2, 8, {5, 2}, 3, {3, 5}, {1, 2}, {0, 1}));
}

// Few channels in C order are read as they are. Half kinds read pairs, which begin at even places.
TEST_P(FloatProductTest, ImagesInCOrder) {
  const auto check = [&](const ConvDescriptor& d, bool folds = false) {
    const auto op = MakeMatrixConvolution(device(), d);
    EXPECT_EQ(op->workspace_bytes() > 0, folds) << d.name();
    CheckConvolution(d);
  };
  check(Window(1, 3, {19, 18}, 20, {7, 7}, {4, 4}, {2, 1}));
  if (!has_units()) return;
  check(Window(1, 3, {15, 16}, 8, {4, 3}, {3, 1}, {1, 2}), type() != kFloat);
  check(Window(1, 4, {9, 9}, 8, {3, 3}, {2, 2}, {}, {2, 2}), true);
  check(Window(1, 1, {30, 9}, 50, {2, 5}, {1, 2}));
  check(Window(2, 2, {40}, 33, {7}, {2}, {4}));
  check(Window(3, 3, {227, 227}, 96, {11, 11}, {4, 4}));
  check(Window(40, 4, {64, 61}, 48, {3, 3}, {2, 2}, {1, 1}));
  check(Window(20, 3, {112, 112}, 64, {7, 7}, {2, 2}, {3, 3}));
  check(Window(2, 3, {600, 600}, 8, {150, 150}, {2, 2}), true);
}

TEST_P(FloatProductTest, WindowsOfSingleChannels) {
  ConvDescriptor d = Window(2, 20, {7, 6}, 20, {3, 3}, {}, {1, 1}, {}, 20);
  d.epilogue.stages = {ResidualSum{0.5f}, ElementFunction{Kind::kPReLU}};
  d.epilogue.slopes = Bias::kPerRow;
  CheckConvolution(d);
  d = Window(1, 24, {9, 11}, 24, {5, 4}, {2, 3}, {2, 1}, {1, 2}, 24);
  d.epilogue.stages = {kPlainReLU};
  CheckConvolution(d, 40, 8);
}

// Warpgroups compute large results of half kinds; the null device has the instructions of all of
// its backend.
TEST(FloatProduct, ChoosesWarpgroups) {
  for (const DataType type : {kFloat, kHalf, kBfloat16}) {
    MatrixProduct::Problem p;
    p.type = p.out = type;
    p.batch = 4096;
    p.channels = p.plain_channels = 512;
    p.out_channels = p.y_row = 512;
    NullDevice cuda("cuda"), opencl("opencl");
    EXPECT_EQ(FloatProduct(&cuda, p).tile().units, type == kFloat ? 1 : 2);
    EXPECT_EQ(FloatProduct(&opencl, p).tile().units, 1);
  }
}

TEST_P(FloatProductTest, LargeConvolutions) {
  if (!has_units()) GTEST_SKIP() << device()->info().id << " has no matrix units";
  CheckConvolution(Window(4, 16, {40, 41}, 256, {3, 3}, {}, {1, 1}));
  CheckConvolution(Window(4, 3, {130, 121}, 90, {7, 7}, {2, 2}, {3, 3}));
  CheckConvolution(Window(16, 64, {30, 30}, 200, {1, 1}));
  CheckProduct(1100, 1030, 80, type());
}

// Where no vendor's library multiplies floats by matrix units. Gradients have other libraries.
TEST_P(FloatProductTest, IsPreferredOnOpenCl) {
  if (device()->backend() != "opencl") GTEST_SKIP() << "cuDNN is preferred";
  ConvDescriptor d = Window(4, 64, {14, 14}, 64, {3, 3}, {}, {1, 1});
  d.x_layout = Layout::kNHWC;
  const bool preferred = has_units();
  EXPECT_EQ(Multiplexer::ConvolutionLibraries(device(), d)[0] == "matrix", preferred);
  EXPECT_EQ(Multiplexer::PreferredLayout(device(), d) == Layout::kNHWC, preferred);
  GemmDescriptor product;
  product.m = product.n = product.k = 64;
  product.in = product.out = type();
  product.trans_b = true;
  EXPECT_EQ(Multiplexer::GemmLibraries(device(), product)[0] == "matrix", preferred);
  d.x_layout = d.y_layout = Layout::kNCHW;
  d.backward_data = d.backward_weights = true;
  EXPECT_NE(Multiplexer::ConvolutionLibraries(device(), d)[0], "matrix");
  d.y_layout = Layout::kNHWC;
  EXPECT_THROW(MakeMatrixConvolution(device(), d), Error);
}

// The time of reading the weights, in which vendors' libraries are not faster.
TEST_P(FloatProductTest, FewRowsArePreferred) {
  if (!has_units()) GTEST_SKIP() << device()->info().id << " has no matrix units";
  GemmDescriptor d;
  d.n = 64;
  d.k = 128;
  d.in = d.out = type();
  d.trans_b = true;
  for (const int64_t rows : {1, 8}) {
    d.m = rows;
    EXPECT_EQ(Multiplexer::GemmLibraries(device(), d)[0], "matrix");
  }
  d.k = 130;  // no whole vectors, which are packed
  d.constant = GemmDescriptor::Weights::kB;
  if (device()->backend() == "cuda") {
    EXPECT_NE(Multiplexer::GemmLibraries(device(), d)[0], "matrix");
  }
}

// Another library computes those.
TEST_P(FloatProductTest, RefusesOperandsThatBeginBetweenVectors) {
  GemmDescriptor d;
  d.m = d.n = d.k = 8;
  d.in = d.out = type();
  d.trans_b = true;
  const Array a(device(), type(), std::vector<double>(72)),
      c(device(), type(), Numbers(type(), 64, 1));
  const DevicePtr begin = a;
  const auto op = MakeMatrixGemm(device(), d);
  const int64_t bytes = static_cast<int64_t>(type().bytes());
  EXPECT_THROW(op->Run({begin + bytes, a, c}), LibraryRefusal);
  EXPECT_THROW(op->Run({a, begin + bytes, c}), LibraryRefusal);
  op->Run({begin + 16, begin + 16, c});
  EXPECT_EQ(c.Read(), std::vector<double>(64));
}

TEST_P(FloatProductTest, PartsOfLargerArrays) {
  CheckConvolution(Window(2, 8, {4, 3}, 20, {3, 3}, {}, {1, 1}), 33, 5);
  if (!has_units() && type() != kFloat) return;
  CheckConvolution(Window(2, 8, {4, 3}, 32, {3, 3}, {}, {1, 1}), 48, 16);
}

// Each group of items has weights, a bias and slopes; one has no items.
TEST_P(FloatProductTest, GroupsOfRows) {
  constexpr int64_t kGroups = 3, kItems = 5;
  const std::vector<double> first{0, 2, 2, 4};  // the last item is not in use
  struct Case {
    Shape input;
    int64_t kernel, parts;
  };
  // Items of one row are vectors.
  for (const auto& [input, kernel, parts] :
       {Case{{1, 1}, 1, 1}, {{4, 3}, 1, 1}, {{4, 3}, 3, 1}, {{3, 4}, 3, 2}}) {
    ConvDescriptor d =
        Window(kItems, 64, input, 20, {kernel, kernel}, {}, {kernel / 2, kernel / 2});
    d.x_layout = Layout::kNHWC;
    d.epilogue.stages = {ElementFunction{Kind::kPReLU}};
    d.epilogue.slopes = Bias::kPerRow;
    const int64_t positions = d.geometry.output_count(), out = positions * d.out_channels;
    const int64_t in = positions * d.in_channels, weights = d.weight_count();
    const auto x = Numbers(type(), kItems * in, 1), w = Numbers(type(), kGroups * weights, 2);
    const auto bias = Numbers(kFloat, kGroups * d.out_channels, 3);
    const auto slopes = Numbers(kFloat, kGroups * d.out_channels, 4);
    ConvDescriptor alone = d;
    alone.batch = 1;
    std::vector<double> expected;
    for (int64_t item = 0; item < kItems; ++item) {
      const int64_t group = item < 2 ? 0 : 2;
      const auto part = [](const std::vector<double>& all, int64_t index, int64_t count) {
        return std::vector<double>(all.begin() + index * count, all.begin() + (index + 1) * count);
      };
      const auto y = Exact(alone, part(x, item, in), part(w, group, weights),
                           part(bias, group, d.out_channels), std::vector<double>(out),
                           part(slopes, group, d.out_channels));
      expected.insert(expected.end(), y.begin(), y.end());
    }
    d.row_groups = kGroups;
    const auto op = MakeMatrixConvolution(device(), d);
    const test::Bytes workspace(device(), op->workspace_bytes());
    const Array from(device(), type(), test::InLayout(x, Layout::kNHWC, d.in_channels, positions));
    const Array dw(device(), type(), w), db(device(), kFloat, bias), ds(device(), kFloat, slopes);
    const Array y(device(), type(), std::vector<double>(kItems * out, 7));
    const Array offsets(device(), kFloat, first);
    const int64_t packed = op->prepared_bytes();
    const test::Bytes joined(device(), kGroups * packed);
    const DevicePtr all = dw, prepared = joined;
    for (int64_t group = 0; group < kGroups && packed > 0; ++group) {
      op->Prepare(all + group * weights * static_cast<int64_t>(type().bytes()),
                  prepared + group * packed);
    }
    ConvArguments forward{from, dw, packed > 0 ? prepared : DevicePtr{}, db, y};
    forward.epilogue.slopes = ds;
    forward.offsets = offsets;
    forward.workspace = workspace;
    const auto check = [&](const std::string& how) {
      test::ExpectNear(y.Read(), expected, Tolerance(type()),
                       device()->info().id + " " + d.name() + how);
    };
    if (parts == 1) {
      op->Forward(forward);
      check("");
    } else {
      const PlainKernels plain;
      const std::vector<int> tilings = FloatProduct::Tilings(device(), ProblemOf(d));
      for (const int tile : tilings) {
        // PoCL takes seconds for each.
        const bool first = type() != kFloat && tile == tilings.front();
        if (!has_units() && tile != tilings.back() && !first) continue;
        FloatProduct product(device(), ProblemOf(d), tile, parts);
        const test::Bytes sums(device(), product.workspace_bytes());
        for (int launch = 0; launch < 2; ++launch) {
          device()->Fill(y, 0x7f, static_cast<int64_t>(expected.size() * type().bytes()));
          product.Run({from, forward.prepared, db, y, forward.epilogue, 1, 0, offsets, sums});
        }
        check(Concat(", tile ", tile));
      }
    }
  }
}

// A sum, and a result in float.
TEST_P(FloatProductTest, Epilogues) {
  ConvDescriptor d = Window(2, 16, {5, 4}, 36, {1, 1});
  int turn = 0;
  for (const ElementFunction& activation : test::Activations()) {
    for (const auto& stages : test::StagesWith(activation)) {
      // PoCL takes two seconds for a program.
      if (++turn % (type() == kFloat ? 10 : 23) != 0 && !has_units()) continue;
      d.epilogue.stages = stages;
      d.epilogue.bias = turn % 2 ? Bias::kPerRow : Bias::kNone;
      d.out = turn % 2 ? type() : kFloat;
      d.epilogue.slopes = turn % 2 ? Bias::kPerRow : Bias::kNone;
      CheckConvolution(d);
    }
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FloatProductTest);
INSTANTIATE_TEST_SUITE_P(All, FloatProductTest, testing::ValuesIn(CompiledDevices()),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

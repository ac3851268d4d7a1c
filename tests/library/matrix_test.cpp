// Products of codes by matrix units, or by the loops that stand for them, against their definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "caffe/library/generated/matrix_product.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/multiplexer.hpp"
#include "library/exact_codes.hpp"
#include "library/library_support.hpp"
#include "support/devices.hpp"
#include "support/plain_kernels.hpp"

namespace caffe {
namespace {

using exact::Channels;
using exact::CodeActivation;
using exact::Codes;
using exact::Conv;
using exact::DeviceChannels;
using exact::Numbers;
using exact::Operands;

// The devices that have a compiler.
std::vector<DeviceType> CompiledDevices() {
  std::vector<DeviceType> devices;
  for (const DeviceType& one : DevicesAndTypes({kQuant8, kQuant16})) {
    if (!one.device->host_accessible()) devices.push_back(one);
  }
  return devices;
}

// In place of `codes` in kNCHW; positions are `pitch` elements apart, and gaps hold 7.
std::vector<int64_t> ChannelsLast(const std::vector<int64_t>& codes, int64_t channels,
                                  int64_t positions, int64_t pitch) {
  const int64_t image = channels * positions, count = static_cast<int64_t>(codes.size());
  std::vector<int64_t> last(count / channels * pitch, 7);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t c = i % image / positions, p = i % positions;
    last[(i / image * positions + p) * pitch + c] = codes[i];
  }
  return last;
}

class MatrixTest : public testing::TestWithParam<DeviceType> {
 protected:
  Device* device() const { return GetParam().device; }
  DataType type() const { return GetParam().type; }

  void CheckProduct(int64_t m, int64_t n, int64_t k, const CodeActivation& activation = {}) {
    GemmDescriptor d = exact::Product(type(), m, n, k);
    d.epilogue.stages = {activation.activation};
    if (activation.activation.kind == ElementFunction::Kind::kNone) d.epilogue.stages.clear();
    const Operands operands = exact::RandomOperands(d, 3);
    Channels channels = exact::RandomChannels(n, type(), k, 4);
    if (!d.epilogue.stages.empty()) exact::Activate(activation, type(), &channels);
    Run(d, operands, channels);
  }

  void Run(const GemmDescriptor& d, const Operands& operands, const Channels& channels) {
    const Codes a(device(), exact::Pack(operands.a, type()));
    const Codes b(device(), exact::Pack(operands.b, type()));
    const Codes c(device(), exact::Pack(std::vector<int64_t>(exact::SizeC(d), 7), type()));
    const DeviceChannels arguments(device(), channels);
    const auto op = Multiplexer::GemmBy("matrix", device(), d);
    GemmArguments product{a, b, c};
    product.quant = &arguments.arguments;
    test::Run(*op, device(), product);
    EXPECT_EQ(exact::Unpack(c.Read(), type()), exact::Exact(d, operands, channels)) << d.name();
  }

  // Channels last in y, first or last in x.
  // y are the channels from `first` on of an array with `pitch` channels.
  void CheckConvolution(ConvDescriptor d, const CodeActivation& activation = {}, int64_t pitch = 0,
                        int64_t first = 0) {
    Channels channels = exact::RandomChannels(d.out_channels, type(), d.depth(), 6);
    if (activation.activation.kind != ElementFunction::Kind::kNone) {
      d.epilogue.stages = {activation.activation};
      exact::Activate(activation, type(), &channels);
    }
    CheckCodes(d, channels, pitch, first);
  }

  void CheckCodes(const ConvDescriptor& d, const Channels& channels, int64_t pitch = 0,
                  int64_t first = 0) {
    Numbers numbers(5);
    const int64_t most = type().info().code_max;
    std::vector<int64_t> x(d.batch * d.in_channels * d.geometry.input_count());
    std::vector<int64_t> w(d.weight_count());
    for (int64_t& code : x) code = numbers.Next(0, most);
    for (int64_t& code : w) code = numbers.Next(1, most);
    Compare(d, x, w, channels, {}, pitch, first);
  }

  // With the sum of a residual, and with ReLU behind it.
  void CheckSums(const ConvDescriptor& plain) {
    Numbers numbers(7);
    const int32_t most = type().info().code_max;
    const auto codes = [&](int64_t count, int64_t least) {
      std::vector<int64_t> values(count);
      for (int64_t& code : values) code = numbers.Next(least, most);
      return values;
    };
    for (const bool relu : {false, true}) {
      ConvDescriptor d = plain;
      d.epilogue.stages = {ResidualSum{}};
      if (relu) d.epilogue.stages.push_back(kPlainReLU);
      Channels channels = exact::RandomChannels(d.out_channels, type(), d.depth(), 8);
      channels.sum = {1 << 30, -(1 << 29), 30, most / 3, most / 2, {0x60000000, 30}, most / 9};
      if (!relu) channels.sum.zero_result = channels.sum.zero_sum;
      Compare(d, codes(d.batch * d.in_channels * d.geometry.input_count(), 0),
              codes(d.weight_count(), 1), channels,
              codes(d.batch * d.out_channels * d.geometry.output_count(), 0), 0);
    }
  }

  // `residual`, in kNCHW, is empty if the epilogue has no sum.
  void Compare(ConvDescriptor d, const std::vector<int64_t>& x, const std::vector<int64_t>& w,
               const Channels& channels, const std::vector<int64_t>& residual, int64_t pitch,
               int64_t first = 0) {
    const int64_t in = d.geometry.input_count(), out = d.geometry.output_count();
    ConvDescriptor own = d;
    if (d.epilogue.sum()) own.epilogue.stages.clear();
    std::vector<int64_t> results = exact::Exact(own, x, w, channels);
    for (size_t i = 0; i < residual.size(); ++i) {
      results[i] = channels.SumCode(results[i], residual[i], d.epilogue.stages.size() > 1,
                                    type().info().code_max);
    }
    auto exact = ChannelsLast(results, d.out_channels, out, pitch ? pitch : d.out_channels);
    exact.insert(exact.begin(), first, 7);
    exact.resize(exact.size() - first);
    const Codes added(
        device(),
        exact::Pack(residual.empty() ? residual
                                     : ChannelsLast(residual, d.out_channels, out, d.out_channels),
                    type()));
    d.y_layout = Layout::kNHWC;
    d.y_pitch = pitch;
    const Codes weights(device(), exact::Pack(w, type()));
    const DeviceChannels arguments(device(), channels);
    for (const Layout layout : {Layout::kNCHW, Layout::kNHWC}) {
      d.x_layout = layout;
      if (!MatrixConvolutionLibrary().Supports(device(), d)) continue;
      ++ran_;
      const Codes from(
          device(),
          exact::Pack(
              layout == Layout::kNCHW ? x : ChannelsLast(x, d.in_channels, in, d.in_channels),
              type()));
      const Codes y(device(), exact::Pack(std::vector<int64_t>(exact.size(), 7), type()));
      const auto op = Multiplexer::ConvolutionBy("matrix", device(), d);
      test::Memory memory(device(), op.get());
      ConvArguments forward{from, weights, {}, {}, y};
      forward.y = forward.y + first * static_cast<int64_t>(type().bytes());
      forward.quant = &arguments.arguments;
      if (d.epilogue.sum()) forward.epilogue.residual = added;
      forward = memory(forward);
      // Twice: the second finds whatever the first left in its workspace.
      for (int i = 0; i < 2; ++i) op->Forward(forward);
      EXPECT_EQ(exact::Unpack(y.Read(), type()), exact) << d.name();
    }
  }
  ConvDescriptor Window(int64_t batch, int64_t in, Shape input, int64_t out, Shape kernel,
                        Shape stride = {}, Shape pad = {}, Shape dilation = {},
                        int64_t group = 1) const {
    return Conv(type(), batch, in, std::move(input), out, std::move(kernel), std::move(stride),
                std::move(pad), std::move(dilation), group);
  }
  // Every how many cases run. Loops on processors take seconds to compile for each, and those of 16
  // bits differ from those of 8 bits in the products only.
  size_t Step() const { return !device()->info().matrix && type() == kQuant16 ? 3 : 1; }
  int ran_ = 0;  // layouts that were computed
  std::optional<PlainKernels> plain_{std::in_place};
};

// Every way of dividing the result.
TEST_P(MatrixTest, EveryTile) {
  struct Sizes {
    int64_t m, n, k;
  };
  // Whole tiles and ones that stick out; depths that end anywhere, and that are added in slices.
  for (const auto& [m, n, k] : {Sizes{1, 1, 4}, {130, 132, 272}, {35, 97, 33000}}) {
    const GemmDescriptor d = exact::Product(type(), m, n, k);
    const Operands operands = exact::RandomOperands(d, 3);
    const Channels channels = exact::RandomChannels(n, type(), k, 4);
    const auto exact = exact::Exact(d, operands, channels);
    MatrixProduct::Problem problem;
    problem.type = problem.out = type();
    problem.batch = m;
    problem.channels = problem.plain_channels = k;
    problem.out_channels = problem.y_row = n;
    problem.epilogue = d.epilogue;
    const Codes a(device(), exact::Pack(operands.a, type()));
    const Codes b(device(), exact::Pack(operands.b, type()));
    const DeviceChannels arguments(device(), channels);
    for (const int tile : MatrixProduct::Tilings(device(), problem)) {
      if (!device()->info().matrix && tile % 4 != 0) continue;
      MatrixProduct product(device(), problem, tile);
      const Codes packed(device(), product.packed_bytes());
      const Codes c(device(), exact::Pack(std::vector<int64_t>(m * n, 7), type()));
      product.Pack(b, packed);
      product.Run(a, packed, c, arguments.arguments, {});
      EXPECT_EQ(exact::Unpack(c.Read(), type()), exact) << d.name() << ", tile " << tile;
    }
  }
}

// At most 4 rows of 8 bits have a kernel of their own.
TEST_P(MatrixTest, AFewRows) {
  for (const int64_t rows : {1, 2, 4, 5}) {
    CheckProduct(rows, 37, 1040);
    CheckProduct(rows, 8, 16);
  }
  for (const CodeActivation& row : exact::CodeActivations()) CheckProduct(3, 11, 48, row);
  CheckConvolution(Window(1, 64, {2, 2}, 20, {1, 1}), {}, 33, 5);
  EXPECT_EQ(ran_, 2);
}

TEST_P(MatrixTest, ProductsOfManyShapes) {
  const std::vector<std::array<int64_t, 3>> sizes{{1, 70, 1000}, {3, 32, 64},  {17, 33, 100},
                                                  {70, 130, 72}, {33, 4, 260}, {130, 256, 144}};
  for (size_t i = 0; i < sizes.size(); i += Step()) {
    CheckProduct(sizes[i][0], sizes[i][1], sizes[i][2]);
  }
}

// Results that fill a large device are computed by its largest tiles.
TEST_P(MatrixTest, LargeProducts) {
  if (!device()->info().matrix) GTEST_SKIP() << device()->info().id << " has no matrix units";
  CheckProduct(1100, 1030, 80);
  CheckProduct(20000, 96, 72);
  CheckProduct(20000, 60, 64);
  CheckConvolution(Window(4, 16, {60, 61}, 256, {3, 3}, {}, {1, 1}, {}, 2));
  CheckConvolution(Window(4, 3, {130, 121}, 90, {7, 7}, {2, 2}, {3, 3}));
  EXPECT_EQ(ran_, 3);
}

TEST_P(MatrixTest, EveryActivationRoundsOnce) {
  const std::vector<CodeActivation> rows = exact::CodeActivations();
  for (size_t i = 0; i < rows.size(); i += Step()) {
    CheckProduct(37, 29, 40, rows[i]);
    CheckConvolution(Window(2, 8, {6, 6}, 6, {3, 3}, {}, {1, 1}), rows[i]);
    CheckConvolution(Window(2, 6, {6, 6}, 6, {3, 3}, {}, {1, 1}, {}, 6), rows[i]);
  }
  EXPECT_EQ(ran_, Step() == 1 ? 27 : 9);
}

// The largest sums of each sign at the depths where the kernel changes how it adds.
TEST_P(MatrixTest, WorstOperandsAtTheLimitsOfDepth) {
  plain_.reset();  // few kernels that run long
  const int64_t most = type().info().code_max;
  for (const int64_t k : {16384, 16400, 32768, 32784, 70000}) {
    // The low one of two bytes is the largest in the last weight.
    for (const int64_t weight :
         {int64_t{1}, most, std::min(most, WeightZero(type()) + int64_t{255})}) {
      GemmDescriptor d = exact::Product(type(), 2, 3, k);
      Operands operands = exact::RandomOperands(d, 3);
      std::fill(operands.a.begin(), operands.a.end(), most);
      std::fill(operands.b.begin(), operands.b.end(), weight);
      Channels channels = exact::RandomChannels(d.n, type(), k, 9);
      const double sum = static_cast<double>(most) * static_cast<double>(k) *
                         std::abs(static_cast<double>(weight - WeightZero(type())));
      for (int64_t c = 0; c < d.n; ++c) {
        const Requant factor = Requant::FromReal(0.3 * static_cast<double>(most) / sum);
        channels.multiplier[c] = factor.multiplier;
        channels.shift[c] = factor.shift;
      }
      channels.zero_y = static_cast<int32_t>(most / 2);
      Run(d, operands, channels);
    }
  }
}

TEST_P(MatrixTest, WindowsStridesPadsDilationsAndGroups) {
  const std::vector<ConvDescriptor> windows{
      Window(2, 1, {9, 8}, 5, {5, 5}), Window(2, 3, {7, 9}, 4, {3, 2}, {2, 1}, {1, 2}),
      Window(3, 16, {8, 8}, 12, {3, 3}, {1, 1}, {2, 2}, {2, 3}, 2),
      Window(1, 24, {9, 9}, 20, {3, 3}, {2, 2}, {1, 1}),
      Window(1, 6, {5, 5}, 6, {3, 3}, {1, 1}, {1, 1}, {}, 6),
      Window(2, 8, {12, 11}, 130, {3, 3}, {1, 1}, {1, 1}),
      // Two groups as one, whose positions are whole vectors.
      Window(2, 48, {6, 7}, 64, {5, 5}, {1, 1}, {2, 2}, {}, 2),
      Window(2, 24, {5, 5}, 10, {3, 3}, {2, 2}, {1, 1}, {}, 2),
      Window(1, 3, {40, 41}, 20, {11, 11}, {4, 4}, {2, 2}),
      Window(1, 2, {30, 30}, 7, {19, 19}, {2, 2}, {3, 3}),
      Window(2, 5, {9, 8}, 7, {3, 3}, {1, 1}, {1, 1}, {2, 2}),
      Window(2, 72, {6, 5}, 72, {3, 3}, {2, 2}, {1, 1}, {}, 72),
      Window(1, 5, {9, 9}, 5, {5, 5}, {1, 1}, {2, 2}, {2, 2}, 5)};
  for (size_t i = 0; i < windows.size(); i += Step()) CheckConvolution(windows[i]);
  if (Step() == 1) EXPECT_EQ(ran_, 20);
  EXPECT_GE(ran_, 5);
}

// Items compute from 1 to 4 rows of windows, by the number of items and the compute units.
TEST_P(MatrixTest, WindowsOfSingleChannels) {
  const auto window = [this](int64_t batch, int64_t channels, Shape input, Shape kernel,
                             Shape stride, Shape pad) {
    CheckConvolution(Window(batch, channels, std::move(input), channels, std::move(kernel),
                            std::move(stride), std::move(pad), {}, channels));
  };
  window(1, 8, {9, 10}, {3, 3}, {}, {1, 1});
  window(3, 96, {17, 29}, {3, 3}, {}, {1, 1});
  window(2, 96, {40, 37}, {3, 3}, {2, 2}, {1, 1});
  window(2, 64, {31, 30}, {2, 4}, {1, 2}, {1, 0});
  window(2, 64, {30, 31}, {4, 2}, {2, 1}, {0, 1});
  EXPECT_EQ(ran_, 5);
  if (!device()->info().matrix) return;
  window(8, 128, {60, 60}, {3, 3}, {}, {1, 1});
}

// Factors in which halves occur among codes, and ones beyond the usual shifts.
TEST_P(MatrixTest, FactorsThatAreSpecial) {
  struct Case {
    int32_t multiplier, shift;
  };
  const int bits = type().bytes() == 1 ? 0 : 16;
  for (const auto& [multiplier, shift] : {Case{1 << 30, 33 + bits / 2},
                                          {1 << 30, 38 + bits},
                                          {3 << 29, 39 + bits},
                                          {1 << 30, 32},
                                          {0x5a5a5a5a, 31},
                                          {0x5a5a5a5a, 90},
                                          {0, 40}}) {
    for (const int32_t one : {0, 5}) {  // all channels, and a single one
      GemmDescriptor d = exact::Product(type(), 40, 37, 36);
      const Operands operands = exact::RandomOperands(d, 3);
      Channels channels = exact::RandomChannels(d.n, type(), d.k, 4);
      for (int64_t c = one; c < (one ? one + 1 : d.n); ++c) {
        channels.multiplier[c] = multiplier;
        channels.shift[c] = shift;
      }
      Run(d, operands, channels);
      ConvDescriptor windows = Window(2, 8, {7, 6}, 8, {3, 3}, {}, {1, 1}, {}, 8);
      channels = exact::RandomChannels(windows.out_channels, type(), windows.depth(), 6);
      channels.multiplier[one] = multiplier;
      channels.shift[one] = shift;
      CheckCodes(windows, channels);
    }
  }
}

TEST_P(MatrixTest, Pointwise) {
  CheckConvolution(Window(1, 64, {20, 20}, 40, {1, 1}));
  CheckConvolution(Window(2, 70, {3, 3}, 67, {1, 1}));
  CheckConvolution(Window(2, 64, {9, 8}, 48, {1, 1}, {2, 2}));
  CheckConvolution(Window(2, 32, {9, 8}, 48, {1, 1}, {}, {}, {}, 2));
  EXPECT_EQ(ran_, 7);
}

TEST_P(MatrixTest, OneAxisAndWindowsBeyondThePadding) {
  CheckConvolution(Window(2, 4, {17}, 4, {4}, {3}, {2}, {2}));
  CheckConvolution(Window(2, 3, {2, 3}, 4, {3, 5}, {2, 3}));
  CheckConvolution(Window(2, 8, {5, 2}, 3, {3, 5}, {1, 2}, {0, 1}));
  EXPECT_EQ(ran_, 6);
}

TEST_P(MatrixTest, PartsOfLargerArrays) {
  CheckConvolution(Window(2, 8, {6, 6}, 20, {3, 3}, {}, {1, 1}), {}, 33);
  CheckConvolution(Window(2, 8, {6, 6}, 32, {3, 3}, {}, {1, 1}), {}, 48);
  CheckConvolution(Window(1, 16, {6, 6}, 16, {3, 3}, {}, {1, 1}, {}, 16), {}, 40);
  // Rows of whole vectors that do not begin at one.
  CheckConvolution(Window(2, 8, {6, 6}, 16, {3, 3}, {}, {1, 1}), {}, 32, 4);
  CheckConvolution(Window(2, 8, {6, 6}, 16, {3, 3}, {}, {1, 1}), {}, 32, 16);
  EXPECT_EQ(ran_, 9);
}

TEST_P(MatrixTest, AResidualSumRepeatsTheCodesOfSeparateLayers) {
  CheckSums(Window(2, 8, {7, 6}, 20, {3, 3}, {}, {1, 1}));
  CheckSums(Window(1, 64, {9, 5}, 72, {1, 1}));
  CheckSums(Window(2, 6, {6, 6}, 6, {3, 3}, {}, {1, 1}, {}, 6));
  EXPECT_GT(ran_, 0);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MatrixTest);
INSTANTIATE_TEST_SUITE_P(All, MatrixTest, testing::ValuesIn(CompiledDevices()),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

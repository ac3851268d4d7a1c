// Quantized products and convolutions against their definition in 128-bit arithmetic: codes are
// equal, on every device.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/cpu/cpu_device.hpp"
#include "caffe/library/multiplexer.hpp"
#include "library/exact_codes.hpp"
#include "library/exact_requantize.hpp"
#include "library/library_support.hpp"
#include "support/devices.hpp"
#include "support/scoped_variable.hpp"

namespace caffe {
namespace {

using exact::Activate;
using exact::Channels;
using exact::CodeActivation;
using exact::CodeActivations;
using exact::Codes;
using exact::Conv;
using exact::DeviceChannels;
using exact::Exact;
using exact::Numbers;
using exact::Operands;
using exact::Pack;
using exact::Product;
using exact::RandomChannels;
using exact::RandomOperands;
using exact::SizeA;
using exact::SizeB;
using exact::SizeC;
using exact::Unpack;
using exact::Wide;

// Calls `compute` at every instruction level of a processor; on other devices once.
template <class Compute> void AtEveryLevel(Device* device, const Compute& compute) {
  const std::string before = HostLevel();
  const auto levels = device->host_accessible() ? HostLevels() : std::vector<std::string>{before};
  for (const std::string& level : levels) {
    SCOPED_TRACE(level);
    SetHostLevel(level);
    compute();
  }
  SetHostLevel(before);
}

// --- Products ------------------------------------------------------------------------------------

// Computes the product by a library into c.
void ComputeInto(const Codes& c, Device* device, const GemmDescriptor& d, const Operands& operands,
                 const Channels& channels, const std::string& library) {
  const Codes a(device, Pack(operands.a, d.in)), b(device, Pack(operands.b, d.in));
  const DeviceChannels arguments(device, channels);
  const auto op = Multiplexer::GemmBy(library, device, d);
  EXPECT_EQ(op->library(), library);
  GemmArguments product{a, b, c};
  product.quant = &arguments.arguments;
  test::Run(*op, device, product);
}

// The result of a library; elements of C that no product reaches keep 7.
std::vector<int64_t> Compute(Device* device, const GemmDescriptor& d, const Operands& operands,
                             const Channels& channels, const std::string& library) {
  const Codes c(device, Pack(std::vector<int64_t>(SizeC(d), 7), d.in));
  ComputeInto(c, device, d, operands, channels, library);
  return Unpack(c.Read(), d.in);
}

// The same for values in float.
std::vector<float> Values(Device* device, const GemmDescriptor& d, const Operands& operands,
                          const Channels& channels, const std::string& library) {
  const Codes c(device, std::vector<float>(SizeC(d), 7));
  ComputeInto(c, device, d, operands, channels, library);
  std::vector<float> values(SizeC(d));
  std::memcpy(values.data(), c.Read().data(), values.size() * sizeof(float));
  return values;
}

class QuantizedGemmTest : public testing::TestWithParam<DeviceType> {
 protected:
  // Every library that supports the product computes exactly these codes.
  void Compare(const GemmDescriptor& d, const Operands& operands, const Channels& channels,
               const std::vector<int64_t>& exact) {
    Device* const device = GetParam().device;
    AtEveryLevel(device, [&] {
      const auto libraries = Multiplexer::GemmLibraries(device, d);
      ASSERT_FALSE(libraries.empty());
      for (const std::string& library : libraries) {
        EXPECT_EQ(Compute(device, d, operands, channels, library), exact)
            << library << " " << d.name();
      }
    });
  }
  void Check(const GemmDescriptor& d, uint64_t seed = 1) {
    const Operands operands = RandomOperands(d, seed);
    const Channels channels =
        RandomChannels(d.epilogue.bias == Epilogue::Bias::kPerRow ? d.m : d.n, d.in, d.k, seed + 1);
    Compare(d, operands, channels, Exact(d, operands, channels));
  }
};

TEST_P(QuantizedGemmTest, EveryLayoutEqualsExactSums) {
  const DataType type = GetParam().type;
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                                {3, 5, 31},
                                {70, 66, 33},
                                {1, 200, 100},
                                {64, 64, 300},
                                {2, 3, 2000}}) {
    for (const bool rows : {false, true}) {
      for (const bool trans_a : {false, true}) {
        GemmDescriptor d = Product(type, m, n, k, rows);
        d.trans_a = trans_a;
        d.trans_b = m % 2 == 1;
        Check(d);
        d.epilogue.stages = {kPlainReLU};
        Check(d, 5);
      }
    }
  }
}

TEST_P(QuantizedGemmTest, EveryActivationRoundsOnce) {
  const auto [device, type] = GetParam();
  for (const bool rows : {false, true}) {
    GemmDescriptor d = Product(type, 37, 29, 40, rows);
    const Operands operands = RandomOperands(d, 31);
    Channels channels = RandomChannels(rows ? d.m : d.n, type, d.k, 32);
    std::set<std::vector<int64_t>> results;
    for (const CodeActivation& row : CodeActivations()) {
      Activate(row, type, &channels);
      d.epilogue.stages = {row.activation};
      const std::vector<int64_t> exact = Exact(d, operands, channels);
      results.insert(exact);
      Compare(d, operands, channels, exact);
    }
    EXPECT_EQ(results.size(), CodeActivations().size()) << "each case is a different one";
  }
}

// The real values of sums in float, the same bits by every library.
TEST_P(QuantizedGemmTest, StoresTheValuesOfSums) {
  const auto [device, type] = GetParam();
  if (type != kQuant8) GTEST_SKIP() << "sums of " << type.name() << " are stored as codes";
  uint64_t seed = 60;
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                                {3, 5, 31},
                                {1, 200, 96},
                                {7, 68, 128},
                                {70, 66, 64},
                                {130, 100, 300},
                                {3, 40, kNarrowDepth + 64}}) {
    for (const bool rows : {false, true}) {
      GemmDescriptor d = Product(type, m, n, k, rows);
      d.out = kFloat;
      const Operands operands = RandomOperands(d, ++seed);
      Channels channels = RandomChannels(rows ? d.m : d.n, type, d.k, ++seed);
      // As large and as small as factors of layers can be.
      channels.shift[0] += 70;
      channels.shift.back() -= 60;
      const std::vector<float> exact = ExactValues(d, operands, channels);
      AtEveryLevel(device, [&] {
        for (const std::string& library : Multiplexer::GemmLibraries(device, d)) {
          EXPECT_EQ(Values(device, d, operands, channels, library), exact)
              << library << " " << d.name();
        }
      });
    }
  }
  GemmDescriptor d = Product(type, 2, 3, 5);
  d.out = kFloat;
  d.epilogue.stages = {kPlainReLU};
  EXPECT_THROW(Multiplexer::Gemm(device, d), Error);
  d.epilogue.stages = {};
  d.in = kQuant16;
  EXPECT_THROW(Multiplexer::Gemm(device, d), Error);
}

TEST_P(QuantizedGemmTest, RefusesStagesThatCodesDoNotHave) {
  const auto [device, type] = GetParam();
  GemmDescriptor d = Product(type, 2, 3, 5);
  d.epilogue.stages = {ElementFunction{ElementFunction::Kind::kSigmoid}};
  EXPECT_THROW(Multiplexer::Gemm(device, d), Error);
  d.epilogue.stages = {kPlainReLU, ResidualSum{}};
  EXPECT_THROW(Multiplexer::Gemm(device, d), Error);
  d.epilogue.stages = {ResidualSum{}, ElementFunction{ElementFunction::Kind::kReLU6}};
  EXPECT_THROW(Multiplexer::Gemm(device, d), Error);
  d.epilogue.stages = {ElementFunction{ElementFunction::Kind::kPReLU}};
  const auto op = Multiplexer::Gemm(device, d);
  const QuantArguments quant;
  GemmArguments product;
  product.quant = &quant;
  EXPECT_THROW(op->Run(product), Error) << "without factors for sums below 0";
}

TEST_P(QuantizedGemmTest, BatchesShareTheirWeights) {
  GemmDescriptor d = Product(GetParam().type, 9, 17, 21, true);
  d.batch = 3;
  d.stride_a = GemmDescriptor::kShared;
  d.lda = 25;
  d.ldb = 19;
  d.ldc = 18;
  d.stride_b = 21 * 19 + 6;
  d.stride_c = 9 * 18 + 4;
  Check(d);
  d.stride_a = GemmDescriptor::kDense;
  EXPECT_THROW(Multiplexer::Gemm(GetParam().device, d), Error);
}

// The largest sums that 32 bits have to hold, of either sign, and depths beyond that limit.
TEST_P(QuantizedGemmTest, WorstOperandsAtTheLimitsOfDepth) {
  const auto [device, type] = GetParam();
  const int64_t most = type.info().code_max, zero_w = WeightZero(type);
  for (const int64_t k :
       {kNarrowDepth - 1, kNarrowDepth, kNarrowDepth + 1, 2 * kNarrowDepth, 2 * kNarrowDepth + 5}) {
    const GemmDescriptor d = Product(type, 2, 4, k);
    EXPECT_EQ(d.wide_sums(), type == kQuant16 || k > kNarrowDepth);
    // Activations all at the top, or all at zero; weights all at the top or at the bottom.
    Operands operands{std::vector<int64_t>(2 * k, 0), std::vector<int64_t>(4 * k)};
    std::fill(operands.a.begin(), operands.a.begin() + k, most);
    for (int64_t i = 0; i < 4 * k; ++i) operands.b[i] = i / k % 2 == 0 ? most : 1;
    // The largest biases and zero points: code + (-zero_x) times the sum of the weights.
    const int64_t largest = type == kQuant8 ? int64_t{1} << 30 : int64_t{1} << 46;
    Channels channels;
    for (int c = 0; c < 4; ++c) {
      const int64_t weight = c % 2 == 0 ? most - zero_w : 1 - zero_w;
      const int64_t zero_x = c < 2 ? 0 : most;
      channels.bias.push_back((c % 2 == 0 ? largest : -largest) * (c < 2 ? 1 : -1) -
                              zero_x * weight * k);
      const Wide sum = static_cast<Wide>(most) * (most - zero_w) * k + largest;
      const Requant factor =
          Requant::FromReal(0.4 * static_cast<double>(most) / static_cast<double>(sum));
      channels.multiplier.push_back(factor.multiplier);
      channels.shift.push_back(factor.shift);
    }
    channels.zero_y = static_cast<int32_t>(zero_w);
    const std::vector<int64_t> exact = Exact(d, operands, channels);
    // The case is worth something: the codes lie at both ends of what is in reach.
    EXPECT_GT(exact[0], zero_w + most / 3);
    EXPECT_LT(exact[1], zero_w - most / 3);
    Compare(d, operands, channels, exact);
  }
}

// Which products gemmlowp computes if the environment asks for it.
TEST(GemmlowpTest, ComputesProductsWhoseSumsFit32Bits) {
  Device* const cpu = Runtime::Get().cpu();
  const GemmDescriptor product = Product(kQuant8, 64, 64, 100);
  const auto known = Multiplexer::GemmLibraries(cpu, product);
  if (std::find(known.begin(), known.end(), "gemmlowp") == known.end()) {
    GTEST_SKIP() << "built without gemmlowp";
  }
  {
    const ScopedVariable library("CAFFE_LIBRARY", "gemm=gemmlowp");
    const ConvDescriptor windows = Conv(kQuant8, 2, 8, {12, 11}, 130, {3, 3}, {1, 1}, {1, 1});
    EXPECT_STREQ(Multiplexer::Gemm(cpu, product)->library(), "gemmlowp");
    EXPECT_STREQ(Multiplexer::Convolution(cpu, windows)->library(), "gemmlowp");
    EXPECT_STREQ(Multiplexer::Gemm(cpu, Product(kQuant16, 64, 64, 100))->library(), "native");
    EXPECT_STREQ(Multiplexer::Gemm(cpu, Product(kQuant8, 64, 64, 40000))->library(), "native");
  }
  // It is preferred where there are no instructions for products of codes, from 8 rows on.
  AtEveryLevel(cpu, [&] {
    const bool fast = HostLevel() == "v3" || HostLevel() == "v4";
    const char* const library = fast ? "native" : "gemmlowp";
    EXPECT_STREQ(Multiplexer::Gemm(cpu, product)->library(), library);
    EXPECT_STREQ(Multiplexer::Gemm(cpu, Product(kQuant8, 7, 64, 100))->library(), "native");
    const ConvDescriptor windows = Conv(kQuant8, 1, 8, {12, 11}, 13, {3, 3});
    EXPECT_STREQ(Multiplexer::Convolution(cpu, windows)->library(), library);
    EXPECT_EQ(Multiplexer::PreferredLayout(cpu, windows), fast ? Layout::kNHWC : Layout::kNCHW);
  });
}

// One channel for each shift, with sums of both signs that meet zero, rounding and both
// saturations.
TEST_P(QuantizedGemmTest, EveryShiftAndBothSaturations) {
  const auto [device, type] = GetParam();
  const int shifts = 100;
  const GemmDescriptor d = Product(type, 40, shifts, 9);
  const Operands operands = RandomOperands(d, 11);
  Numbers numbers(13);
  Channels channels;
  const int64_t largest = type == kQuant8 ? int64_t{1} << 30 : int64_t{1} << 46;
  for (int c = 0; c < shifts; ++c) {
    channels.bias.push_back(numbers.Next(-largest, largest) >> numbers.Next(0, 40));
    channels.multiplier.push_back(static_cast<int32_t>(numbers.Next(1 << 30, 0x7fffffff)));
    channels.shift.push_back(c - 2);
  }
  channels.zero_y = type.info().code_max / 3;
  const std::vector<int64_t> exact = Exact(d, operands, channels);
  int64_t low = 0, high = 0, zero = 0, inside = 0;
  for (const int64_t code : exact) {
    low += code == 0;
    high += code == type.info().code_max;
    zero += code == channels.zero_y;
    inside += code > 0 && code < type.info().code_max && code != channels.zero_y;
  }
  EXPECT_GT(std::min({low, high, zero}), 100);
  EXPECT_GT(inside, 20);
  Compare(d, operands, channels, exact);
}

TEST_P(QuantizedGemmTest, EveryZeroPointOfTheResult) {
  const auto [device, type] = GetParam();
  const GemmDescriptor d = Product(type, 2, 3, 5);
  const Operands operands = RandomOperands(d, 21);
  Channels channels = RandomChannels(3, type, d.k, 22);
  const Codes x(device, Pack(operands.a, type)), w(device, Pack(operands.b, type));
  const Codes y(device, 6 * static_cast<int64_t>(type.bytes()));
  const DeviceChannels arguments(device, channels);
  const auto op = Multiplexer::Gemm(device, d);
  test::Memory memory(device, op.get());
  GemmArguments product = memory(GemmArguments{x, w, y});
  const int step = type == kQuant16 && !device->host_accessible() ? 7 : 1;
  for (int zero = 0; zero <= type.info().code_max; zero += step) {
    QuantArguments now = arguments.arguments;
    now.zero_y = channels.zero_y = zero;
    product.quant = &now;
    op->Run(product);
    ASSERT_EQ(Unpack(y.Read(), type), Exact(d, operands, channels)) << "zero point " << zero;
  }
}

TEST_P(QuantizedGemmTest, MistakesAreErrors) {
  const auto [device, type] = GetParam();
  GemmDescriptor d = Product(type, 2, 3, 5);
  const auto op = Multiplexer::Gemm(device, d);
  const QuantArguments quant;
  GemmArguments product;
  EXPECT_THROW(op->Run(product), Error) << "without QuantArguments";
  product.quant = &quant;
  if (op->prepared_bytes() > 0) {
    EXPECT_THROW(op->Run(product), Error) << "without prepared weights";
  }
  d.epilogue.bias = Epilogue::Bias::kNone;
  EXPECT_THROW(Multiplexer::Gemm(device, d), Error);
  d = Product(type, 2, 3, 5);
  d.out = kHalf;
  EXPECT_THROW(Multiplexer::Gemm(device, d), Error);
  const auto plain = Multiplexer::Gemm(device, [] {
    GemmDescriptor f;
    f.m = f.n = f.k = 2;
    return f;
  }());
  EXPECT_THROW(plain->Run(product), Error) << "with QuantArguments";
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedGemmTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

// --- Convolutions --------------------------------------------------------------------------------

class QuantizedConvolutionTest : public testing::TestWithParam<DeviceType> {
 protected:
  void Check(const ConvDescriptor& d, uint64_t seed = 1, const CodeActivation& activation = {}) {
    Numbers numbers(seed);
    const int64_t most = d.in.info().code_max;
    std::vector<int64_t> x(d.batch * d.in_channels * d.geometry.input_count());
    std::vector<int64_t> w(d.weight_count());
    for (int64_t& code : x) code = numbers.Next(0, most);
    for (int64_t& code : w) code = numbers.Next(1, most);
    Channels channels = RandomChannels(d.out_channels, d.in, d.depth(), seed + 1);
    if (activation.activation.kind != ElementFunction::Kind::kNone)
      Activate(activation, d.in, &channels);
    Compare(d, x, w, channels, {});
  }

  // With a residual sum, `residual` are its codes.
  void Compare(const ConvDescriptor& d, const std::vector<int64_t>& x,
               const std::vector<int64_t>& w, const Channels& channels,
               const std::vector<int64_t>& residual) {
    Device* device = GetParam().device;
    ConvDescriptor own = d;
    if (d.epilogue.sum()) own.epilogue.stages.clear();
    std::vector<int64_t> exact = Exact(own, x, w, channels);
    for (size_t i = 0; i < residual.size(); ++i) {
      exact[i] = channels.SumCode(exact[i], residual[i], d.epilogue.stages.size() > 1,
                                  d.in.info().code_max);
    }
    const Codes added(device, Pack(residual, d.in));
    const Codes device_x(device, Pack(x, d.in)), device_w(device, Pack(w, d.in));
    const DeviceChannels arguments(device, channels);
    AtEveryLevel(device, [&] {
      const auto libraries = Multiplexer::ConvolutionLibraries(device, d);
      ASSERT_FALSE(libraries.empty());
      for (const std::string& library : libraries) {
        const Codes y(device, static_cast<int64_t>(exact.size() * d.in.bytes()));
        const auto op = Multiplexer::ConvolutionBy(library, device, d);
        EXPECT_EQ(op->library(), library);
        test::Memory memory(device, op.get());
        ConvArguments forward{device_x, device_w, {}, {}, y};
        forward.quant = &arguments.arguments;
        if (d.epilogue.sum()) forward.epilogue.residual = added;
        forward = memory(forward);
        // Twice: the second finds whatever the first left in its workspace.
        for (int i = 0; i < 2; ++i) op->Forward(forward);
        EXPECT_EQ(Unpack(y.Read(), d.in), exact) << library << " " << d.name();
      }
    });
  }
};

TEST_P(QuantizedConvolutionTest, WindowsStridesPadsDilationsAndGroups) {
  const DataType type = GetParam().type;
  Check(Conv(type, 2, 1, {9, 8}, 5, {5, 5}));
  Check(Conv(type, 2, 3, {7, 9}, 4, {3, 2}, {2, 1}, {1, 2}));
  Check(Conv(type, 3, 4, {8, 8}, 6, {3, 3}, {1, 1}, {2, 2}, {2, 3}, 2));
  Check(Conv(type, 1, 6, {5, 5}, 6, {3, 3}, {1, 1}, {1, 1}, {}, 6));
  Check(Conv(type, 1, 70, {3, 3}, 67, {1, 1}));
  Check(Conv(type, 2, 8, {12, 11}, 130, {3, 3}, {1, 1}, {1, 1}), 7);
}

TEST_P(QuantizedConvolutionTest, OneToFourAxes) {
  const DataType type = GetParam().type;
  Check(Conv(type, 2, 3, {17}, 4, {4}, {3}, {2}, {2}));
  Check(Conv(type, 2, 2, {4, 5, 6}, 3, {2, 3, 2}, {1, 2, 1}, {1, 0, 1}, {1, 1, 2}));
  Check(Conv(type, 1, 2, {3, 4, 3, 4}, 2, {2, 2, 2, 2}, {}, {0, 1, 0, 1}));
}

TEST_P(QuantizedConvolutionTest, WindowsThatReachBeyondThePadding) {
  const DataType type = GetParam().type;
  Check(Conv(type, 2, 3, {2, 3}, 4, {3, 5}, {2, 3}));
  Check(Conv(type, 2, 2, {5, 2}, 3, {3, 5}, {1, 2}, {0, 1}));
  Check(Conv(type, 1, 2, {2, 3, 2}, 3, {3, 3, 4}, {2, 1, 3}));
}

TEST_P(QuantizedConvolutionTest, AReluIsPartOfTheEpilogue) {
  ConvDescriptor d = Conv(GetParam().type, 2, 3, {6, 6}, 4, {3, 3}, {}, {1, 1});
  d.epilogue.stages = {kPlainReLU};
  Check(d);
}

TEST_P(QuantizedConvolutionTest, EveryActivationRoundsOnce) {
  for (const int64_t group : {1, 2}) {
    ConvDescriptor d = Conv(GetParam().type, 2, 4, {6, 6}, 6, {3, 3}, {}, {1, 1}, {}, group);
    for (const CodeActivation& row : CodeActivations()) {
      d.epilogue.stages = {row.activation};
      Check(d, 41, row);
    }
  }
}

// Random factors of sums: every shift, both signs, and sums far beyond the codes.
TEST_P(QuantizedConvolutionTest, AResidualSumRepeatsTheCodesOfSeparateLayers) {
  const DataType type = GetParam().type;
  const int32_t most = type.info().code_max;
  Numbers numbers(71);
  const auto codes = [&](int64_t count, int64_t least) {
    std::vector<int64_t> values(count);
    for (int64_t& code : values) code = numbers.Next(least, most);
    return values;
  };
  for (int round = 0; round < 60; ++round) {
    ConvDescriptor d = round % 3 == 2 ? Conv(type, 2, 4, {5, 6}, 6, {3, 3}, {}, {1, 1}, {}, 2)
                                      : Conv(type, 1, 19, {3, 11}, 37, {1, 1});
    d.epilogue.stages = {ResidualSum{0.5f}};
    if (round % 2 == 1) d.epilogue.stages.push_back(kPlainReLU);
    Channels channels = RandomChannels(d.out_channels, type, d.depth(), 100 + round);
    CodeSum& sum = channels.sum;
    // Mostly shifts with which sums are codes.
    sum.shift = static_cast<int32_t>(round < 40 ? numbers.Next(29, 32) : numbers.Next(-2, 62));
    sum.own = static_cast<int32_t>(numbers.Next(1 << 28, 0x7fffffff));
    sum.residual = static_cast<int32_t>(numbers.Next(-0x7fffffff, 0x7fffffff));
    sum.zero_residual = static_cast<int32_t>(numbers.Next(0, most));
    sum.zero_sum = static_cast<int32_t>(numbers.Next(0, most));
    sum.zero_result = static_cast<int32_t>(numbers.Next(0, most / 3));
    sum.rescale = {static_cast<int32_t>(numbers.Next(1 << 30, 0x7fffffff)),
                   static_cast<int32_t>(round < 40 ? numbers.Next(29, 32) : numbers.Next(-1, 64))};
    if (round % 2 == 0) sum.zero_result = sum.zero_sum;
    Compare(d, codes(d.batch * d.in_channels * d.geometry.input_count(), 0),
            codes(d.weight_count(), 1), channels,
            codes(d.batch * d.out_channels * d.geometry.output_count(), 0));
  }
}

TEST_P(QuantizedConvolutionTest, ChunksOfImagesAndDepthsBeyondTheLimit) {
  const DataType type = GetParam().type;
  ConvDescriptor d = Conv(type, 5, 2, {6, 6}, 3, {3, 3});
  d.workspace_limit = 2 * 2 * 9 * 16 * static_cast<int64_t>(type.bytes());
  Check(d);
  // 3641 channels of 3x3 are more than 2^15 products.
  Check(Conv(type, 1, 3641, {3, 3}, 2, {3, 3}, {}, {1, 1}));
}

TEST_P(QuantizedConvolutionTest, MistakesAreErrors) {
  const auto [device, type] = GetParam();
  ConvDescriptor d = Conv(type, 1, 2, {4, 4}, 2, {3, 3});
  const auto op = Multiplexer::Convolution(device, d);
  const QuantArguments quant;
  ConvArguments forward;
  EXPECT_THROW(op->Forward(forward), Error) << "without QuantArguments";
  forward.quant = &quant;
  if (op->prepared_bytes() > 0) {
    EXPECT_THROW(op->Forward(forward), Error) << "without prepared weights";
  }
  EXPECT_THROW(op->BackwardData({}), Error);
  d.backward_data = true;
  EXPECT_THROW(Multiplexer::Convolution(device, d), Error);
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedConvolutionTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

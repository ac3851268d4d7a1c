// Operators for groups of rows against one operator without groups for each of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "caffe/device/runtime.hpp"
#include "caffe/library/generated/matrix_product.hpp"
#include "caffe/library/multiplexer.hpp"
#include "caffe/library/row_groups.hpp"
#include "library/exact_codes.hpp"
#include "library/library_support.hpp"
#include "support/devices.hpp"
#include "support/plain_kernels.hpp"

namespace caffe {
namespace {

using exact::Channels;
using exact::CodeActivation;
using exact::Codes;
using exact::DeviceChannels;
using exact::Numbers;

constexpr int64_t kItems = 13, kGroups = 5;

// Even and uneven groups, empty ones, all items in one, and items behind those in use.
const std::vector<std::vector<float>>& Divisions() {
  static const auto* const rows = new std::vector<std::vector<float>>{
      {0, 3, 6, 9, 11, 13}, {0, 0, 4, 4, 12, 13},   {0, 13, 13, 13, 13, 13},
      {0, 0, 0, 0, 0, 13},  {0, 0, 13, 13, 13, 13}, {0, 1, 2, 3, 4, 5},
      {0, 0, 0, 0, 0, 0},   {0, 10, 10, 10, 10, 10}};
  return *rows;
}

int64_t FirstItem(const std::vector<float>& offsets, int64_t group, int64_t items) {
  return group == kGroups ? items : static_cast<int64_t>(offsets[group]);
}

std::vector<DeviceType> CompiledDevices() {
  std::vector<DeviceType> devices;
  for (const DeviceType& one : DevicesAndTypes({kQuant8, kQuant16, kFloat, kHalf, kBfloat16})) {
    if (one.device->host_accessible() || !IsTested(*one.device, one.type)) continue;
    devices.push_back(one);
  }
  return devices;
}

// Codes from `least` on, or numbers whose products and sums float holds exactly.
std::vector<char> RandomArray(DataType type, int64_t count, uint64_t seed, int64_t least = 0) {
  if (type.is_quantized()) {
    Numbers numbers(seed);
    std::vector<int64_t> codes(count);
    for (int64_t& code : codes) code = numbers.Next(least, type.info().code_max);
    return exact::Pack(codes, type);
  }
  const std::vector<double> values = test::Values(count, static_cast<uint32_t>(seed));
  std::vector<char> bytes(count * type.bytes());
  ConvertElements(kDouble, values.data(), type, bytes.data(), count);
  return bytes;
}

DevicePtr operator+(const Codes& codes, int64_t bytes) {
  return static_cast<DevicePtr>(codes) + bytes;
}

// The operands of all groups.
struct Operands {
  Operands(Device* device, DataType type, int64_t x_count, int64_t weight_count, int64_t channels,
           int64_t depth, const CodeActivation& activation)
      : x(device, RandomArray(type, x_count, 1)),
        weights(device, RandomArray(type, kGroups * weight_count, 2, 1)),
        bias(device, RandomArray(kFloat, kGroups * channels, 3)),
        slopes(device, RandomArray(kFloat, kGroups * channels, 4)),
        factors(device, Factors(type, channels, depth, activation)) {}
  static Channels Factors(DataType type, int64_t channels, int64_t depth,
                          const CodeActivation& activation) {
    if (!type.is_quantized()) return {};
    Channels factors = exact::RandomChannels(kGroups * channels, type, depth, 5);
    if (activation.activation.kind != ElementFunction::Kind::kNone) {
      exact::Activate(activation, type, &factors);
    }
    return factors;
  }
  Codes x, weights, bias, slopes;
  DeviceChannels factors;
};

// Arrays [items, channels, positions] in kNHWC, or back in kNCHW.
std::vector<char> Transposed(const std::vector<char>& from, int64_t channels, int64_t positions,
                             int64_t bytes, bool back) {
  std::vector<char> to(from.size());
  const int64_t item = channels * positions;
  for (int64_t i = 0; i < static_cast<int64_t>(from.size()) / bytes; ++i) {
    const int64_t c = i % item / positions, p = i % positions;
    const int64_t last = i / item * item + p * channels + c;
    std::copy_n(&from[(back ? last : i) * bytes], bytes, &to[(back ? i : last) * bytes]);
  }
  return to;
}

class RowGroupsTest : public testing::TestWithParam<DeviceType> {
 protected:
  Device* device() const { return GetParam().device; }
  DataType type() const { return GetParam().type; }
  int64_t bytes() const { return static_cast<int64_t>(type().bytes()); }
  std::optional<PlainKernels> plain_{std::in_place};

  // The prepared weights of all groups.
  std::unique_ptr<Codes> Prepare(Operator* op, DevicePtr weights, int64_t weight_bytes) {
    const int64_t prepared = op->prepared_bytes();
    if (prepared == 0) return nullptr;
    auto joined = std::make_unique<Codes>(device(), kGroups * prepared);
    for (int64_t g = 0; g < kGroups; ++g) {
      op->Prepare(weights + g * weight_bytes, *joined + g * prepared);
    }
    return joined;
  }

  void CheckProduct(int64_t n, int64_t k, const CodeActivation& activation = {},
                    int64_t items = kItems) {
    GemmDescriptor own = exact::Product(type(), items, n, k);
    own.constant = GemmDescriptor::Weights::kB;
    Activate(activation, &own.epilogue, Epilogue::Bias::kPerColumn);
    GemmDescriptor d = own;
    d.row_groups = kGroups;
    if (!Multiplexer::KnowsRowGroups(device(), d)) return;
    ++ran_;
    const Operands all(device(), type(), items * k, n * k, n, k, activation);
    const auto op = Multiplexer::Gemm(device(), d);
    const auto prepared = Prepare(op.get(), all.weights, n * k * bytes());
    const test::Bytes workspace(device(), op->workspace_bytes());
    const std::vector<char> before(items * n * bytes(), 9);
    for (const std::vector<float>& division : Divisions()) {
      if (division.back() > static_cast<float>(items)) continue;
      // Loops on processors take seconds for a long sum.
      const bool first_two = &division < &Divisions()[2];
      if (!device()->info().matrix && k > 10000 && !first_two) continue;
      const Codes offsets(device(), division), y(device(), before), expected(device(), before);
      GemmArguments a{all.x, all.weights, y};
      Complete(all, 0, n, &a);
      a.offsets = offsets;
      if (prepared) a.prepared = *prepared;
      a.workspace = workspace;
      op->Run(a);
      for (int64_t g = 0; g < kGroups; ++g) {
        const int64_t first = FirstItem(division, g, items);
        own.m = FirstItem(division, g + 1, items) - first;
        if (own.m == 0) continue;
        a = GemmArguments{all.x + first * k * bytes(), all.weights + g * n * k * bytes(),
                          expected + first * n * bytes()};
        Complete(all, g, n, &a);
        test::Run(*Multiplexer::GemmBy("generated", device(), own), device(), a);
      }
      EXPECT_EQ(y.Read(), expected.Read())
          << d.name() << ", offsets " << testing::PrintToString(division);
    }
  }

  // `sums`: a residual is added, and ReLU follows.
  void CheckConvolution(ConvDescriptor own, const CodeActivation& activation = {},
                        bool sums = false) {
    own.batch = kItems;
    Activate(activation, &own.epilogue, Epilogue::Bias::kPerRow);
    if (sums) own.epilogue.stages = {ResidualSum{}, kPlainReLU};
    const int64_t channels = own.out_channels, in = own.geometry.input_count();
    const int64_t out = own.geometry.output_count(), weight_bytes = own.weight_count() * bytes();
    const int64_t x_item = own.in_channels * in, y_item = channels * out;
    Operands all(device(), type(), kItems * x_item, own.weight_count(), channels, own.depth(),
                 activation);
    const int32_t most = type().is_quantized() ? type().info().code_max : 0;
    all.factors.arguments.sum = {1 << 30,  -(1 << 29),       30,      most / 3,
                                 most / 2, {0x60000000, 30}, most / 9};
    const Codes last(device(), Transposed(all.x.Read(), own.in_channels, in, bytes(), false));
    const Codes residual(device(), RandomArray(type(), kItems * y_item, 6));
    const Codes last_residual(device(), Transposed(residual.Read(), channels, out, bytes(), false));
    for (const std::vector<float>& division : Divisions()) {
      const Codes expected(device(), kItems * y_item * bytes());
      for (int64_t g = 0; g < kGroups; ++g) {
        const int64_t first = FirstItem(division, g, kItems);
        ConvDescriptor d = own;
        d.batch = FirstItem(division, g + 1, kItems) - first;
        if (d.batch == 0) continue;
        ConvArguments a{all.x + first * x_item * bytes(), all.weights + g * weight_bytes};
        a.y = expected + first * y_item * bytes();
        Complete(all, g, channels, &a);
        if (sums) a.epilogue.residual = residual + first * y_item * bytes();
        const auto alone = Multiplexer::ConvolutionBy("generated", device(), d);
        test::Memory memory(device(), alone.get());
        alone->Forward(memory(a));
      }
      const Codes offsets(device(), division);
      const bool first_division = &division == &Divisions()[0];
      for (const Layout x_layout : {Layout::kNCHW, Layout::kNHWC}) {
        for (const Layout y_layout : {Layout::kNCHW, Layout::kNHWC}) {
          const bool last_only = x_layout == Layout::kNHWC && y_layout == Layout::kNHWC;
          if (!first_division && !last_only) continue;
          ConvDescriptor d = own;
          d.row_groups = kGroups;
          d.x_layout = x_layout;
          d.y_layout = y_layout;
          if (!Multiplexer::KnowsRowGroups(device(), d)) continue;
          ++ran_;
          const auto op = Multiplexer::Convolution(device(), d);
          const auto prepared = Prepare(op.get(), all.weights, weight_bytes);
          const test::Bytes workspace(device(), op->workspace_bytes());
          const Codes y(device(), std::vector<char>(kItems * y_item * bytes(), 9));
          ConvArguments a{x_layout == Layout::kNHWC ? last : all.x, all.weights};
          a.y = y;
          Complete(all, 0, channels, &a);
          if (sums) a.epilogue.residual = y_layout == Layout::kNHWC ? last_residual : residual;
          a.offsets = offsets;
          if (prepared) a.prepared = *prepared;
          a.workspace = workspace;
          op->Forward(a);
          std::vector<char> result = y.Read();
          if (y_layout == Layout::kNHWC) result = Transposed(result, channels, out, bytes(), true);
          EXPECT_EQ(result, expected.Read())
              << d.name() << ", offsets " << testing::PrintToString(division);
        }
      }
    }
  }

  ConvDescriptor Window(int64_t in, Shape input, int64_t out, Shape kernel, Shape stride = {},
                        Shape pad = {}, int64_t group = 1) const {
    return exact::Conv(type(), kItems, in, std::move(input), out, std::move(kernel),
                       std::move(stride), std::move(pad), {}, group);
  }

  // Loops on processors take seconds to compile for each case; those of 16 bits differ from those
  // of 8 bits in the products only.
  bool IsBrief() const { return !device()->info().matrix && type() == kQuant16; }
  int ran_ = 0;  // operators with groups

 private:
  void Activate(const CodeActivation& row, Epilogue* epilogue, Epilogue::Bias axis) const {
    if (row.activation.kind == ElementFunction::Kind::kNone) return;
    epilogue->stages = {row.activation};
    if (row.activation.kind == ElementFunction::Kind::kPReLU) epilogue->slopes = axis;
  }

  // Bias, slopes and factors from those of a group on.
  template <class Arguments>
  void Complete(const Operands& all, int64_t group, int64_t channels, Arguments* a) {
    if (type().is_quantized()) {
      quant_ = all.factors.arguments.From(group * channels);
      a->quant = &quant_;
      return;
    }
    const int64_t first = group * channels * static_cast<int64_t>(sizeof(float));
    a->bias = all.bias + first;
    a->epilogue.slopes = all.slopes + first;
  }

  QuantArguments quant_;
};

TEST_P(RowGroupsTest, Products) {
  CheckProduct(5, 48);
  CheckProduct(37, 272);
  CheckProduct(130, 20);
  CheckProduct(33, 1040, {}, 7);
  CheckProduct(40, 64, {}, 70);
  CheckProduct(3, 13);  // rows that no vector of bytes divides
  if (type() == kQuant8) EXPECT_EQ(ran_, 5);
}

TEST_P(RowGroupsTest, ProductsOfManySlices) {
  plain_.reset();  // few kernels that run long
  CheckProduct(9, 33000);
  if (type().is_quantized()) EXPECT_EQ(ran_, 1);
}

TEST_P(RowGroupsTest, Convolutions) {
  CheckConvolution(Window(16, {5, 6}, 24, {3, 3}, {}, {1, 1}));
  CheckConvolution(Window(32, {7, 5}, 40, {3, 3}, {2, 2}, {1, 1}, 2));
  if (IsBrief()) return;
  CheckConvolution(Window(48, {4, 3}, 8, {3, 3}, {}, {1, 1}, 2));  // of 8 bits, joined groups
  CheckConvolution(Window(3, {13, 12}, 10, {5, 5}, {4, 4}, {2, 2}));
  CheckConvolution(Window(5, {6, 6}, 7, {3, 3}));
  if (type().is_quantized()) EXPECT_EQ(ran_, 5 * (3 + static_cast<int>(Divisions().size())));
}

TEST_P(RowGroupsTest, ResidualSums) {
  CheckConvolution(Window(16, {5, 6}, 24, {3, 3}, {}, {1, 1}), {}, true);
}

// A tile is larger than the rows of an item, and items are larger than a tile.
TEST_P(RowGroupsTest, ItemsAndTiles) {
  CheckConvolution(Window(16, {1, 3}, 16, {1, 1}));
  CheckConvolution(Window(16, {14, 15}, 16, {1, 1}));
}

TEST_P(RowGroupsTest, FactorsAndSlopesAreThoseOfTheGroup) {
  for (const CodeActivation& row : exact::CodeActivations()) {
    if (IsBrief() && !row.activation.HasSlope()) continue;
    CheckProduct(11, 48, row);
    CheckProduct(11, 48, row, 40);
    CheckConvolution(Window(16, {3, 3}, 6, {3, 3}, {}, {1, 1}), row);
  }
}

// Ways of dividing the result, with the same codes.
TEST_P(RowGroupsTest, EveryTile) {
  if (!type().is_quantized()) GTEST_SKIP() << "a kernel of codes";
  plain_.reset();
  constexpr int64_t kImages = 29;
  for (const int64_t k : {144, 33000}) {
    // Loops on processors take seconds for a long sum.
    const int64_t outputs = k > 144 && !device()->info().matrix ? 18 : 70;
    const CodeActivation none;
    const Operands all(device(), type(), kImages * k, outputs * k, outputs, k, none);
    MatrixProduct::Problem problem;
    problem.type = problem.out = type();
    problem.batch = kImages;
    problem.channels = problem.plain_channels = k;
    problem.out_channels = problem.y_row = outputs;
    problem.row_groups = kGroups;
    problem.epilogue = exact::Product(type(), kImages, outputs, k).epilogue;
    std::vector<char> first;
    for (const int tile : MatrixProduct::Tilings(device(), problem)) {
      // On processors, each takes seconds to compile.
      if (!device()->info().matrix && tile % (IsBrief() ? 8 : 4) != 0) continue;
      MatrixProduct product(device(), problem, tile);
      const Codes packed(device(), kGroups * product.packed_bytes());
      for (int64_t g = 0; g < kGroups; ++g) {
        product.Pack(all.weights + g * outputs * k * bytes(), packed + g * product.packed_bytes());
      }
      const Codes y(device(), std::vector<char>(kImages * outputs * bytes(), 9));
      const Codes offsets(device(), std::vector<float>{0, 3, 3, 20, 24, 29});
      product.Run(all.x, packed, y, all.factors.arguments, {}, offsets);
      if (first.empty()) first = y.Read();
      EXPECT_EQ(y.Read(), first) << "depth " << k << ", tile " << tile;
    }
  }
}

TEST(RowGroupTilesTest, AreEnoughForEveryDivision) {
  for (const int64_t tile : {1, 4, 16}) {
    for (const int64_t item_rows : {1, 3, 16, 30}) {
      for (int64_t items = 1; items <= 6; ++items) {
        for (int64_t groups = 1; groups <= 3; ++groups) {
          // Items of groups 0, 1 and 2.
          for (int64_t a = 0; a <= items; ++a) {
            for (int64_t b = 0; a + b <= items; ++b) {
              if ((groups < 3 && a + b < items) || (groups < 2 && a < items)) continue;
              int64_t tiles = 0;
              for (const int64_t of : {a, b, items - a - b}) {
                tiles += (of * item_rows + tile - 1) / tile;
              }
              EXPECT_LE(tiles, RowGroupTiles(items, item_rows, groups, tile));
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(RowGroupTiles(100, 1, 0, 16), 7);
  EXPECT_EQ(RowGroupTiles(4, 1, 16, 128), 4);
}

TEST(RowGroupErrorsTest, OffsetsBelongToGroups) {
  ConvDescriptor d = exact::Conv(kQuant8, 2, 16, {4, 4}, 8, {1, 1});
  d.row_groups = 2;
  EXPECT_NO_THROW(d.Normalize());
  EXPECT_NE(d.name().find("row groups 2"), std::string::npos) << d.name();
  d.backward_data = true;
  EXPECT_THROW(d.Normalize(), Error);
  GemmDescriptor product = exact::Product(kQuant8, 4, 8, 16);
  product.row_groups = 2;
  EXPECT_NO_THROW(product.Check());
  product.batch = 2;
  EXPECT_THROW(product.Check(), Error);
  product = exact::Product(kQuant8, 4, 8, 16, true);
  product.row_groups = 2;
  EXPECT_THROW(product.Check(), Error) << "the weights are A";
}

// No row of the CPU knows them: layers compute parts there.
TEST(RowGroupErrorsTest, OtherLibrariesRefuse) {
  Device* const cpu = Runtime::Get().cpu();
  for (const DataType type : {kFloat, kDouble, kHalf, kQuant8, kQuant16}) {
    ConvDescriptor d = exact::Conv(type, 2, 16, {4, 4}, 8, {1, 1});
    d.row_groups = 2;
    EXPECT_FALSE(Multiplexer::KnowsRowGroups(cpu, d)) << d.name();
    EXPECT_THROW(Multiplexer::Convolution(cpu, d), Error);
    GemmDescriptor product = exact::Product(type, 4, 8, 16);
    product.constant = GemmDescriptor::Weights::kB;
    product.epilogue.bias_type = type == kDouble ? kDouble : kFloat;
    product.row_groups = 2;
    EXPECT_FALSE(Multiplexer::KnowsRowGroups(cpu, product)) << product.name();
    EXPECT_THROW(Multiplexer::Gemm(cpu, product), Error);
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RowGroupsTest);
INSTANTIATE_TEST_SUITE_P(All, RowGroupsTest, testing::ValuesIn(CompiledDevices()),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

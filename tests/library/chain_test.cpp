// Chains of functions of one element against their definitions in double.
#include "caffe/library/chain.hpp"

#include <gtest/gtest.h>

#include <random>

#include "caffe/core/error.hpp"
#include "library/library_support.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

using test::Array;
using test::Values;
using Kind = ElementFunction::Kind;
using Numbers = std::vector<double>;

struct Stage {
  Kind kind;
  Numbers constants;  // for each constant a value for each channel
};

// Functions whose arguments stay where they are defined and small. `channels`: affine maps and
// slopes have other constants in each.
class RandomChain {
 public:
  RandomChain(int seed, int64_t channels) : random_(seed), channels_(channels) {}

  std::vector<Stage> Make(int length) {
    stages_.clear();
    sums_ = 0;
    // Later arguments are not exact, and could be on the other side.
    if (Draw(0, 1) < 0.2) Add(Kind::kThreshold);
    while (static_cast<int>(stages_.size()) < length) {
      const Kind kind = ElementFunction::Kinds()[random_() % ElementFunction::Kinds().size()];
      if (kind == Kind::kThreshold || kind == Kind::kConstant) continue;
      if (kind == Kind::kSum && sums_ == ChainOp::kMaxSummands) continue;
      const bool positive = kind == Kind::kLog || kind == Kind::kPower;
      const bool grows = kind == Kind::kExp || kind == Kind::kSquare;
      if (static_cast<int>(stages_.size()) + (positive || grows) >= length) continue;
      if (positive) Add(Kind::kSigmoid);
      if (grows) Add(Kind::kTanH);
      Add(kind);
    }
    return stages_;
  }

 private:
  double Draw(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }

  void Add(Kind kind) {
    Stage stage{kind, {}};
    const bool separate = kind == Kind::kAffine || kind == Kind::kPReLU;
    for (int j = 0; j < ElementFunction::RowOf(kind).constants; ++j) {
      for (int64_t c = 0; c < channels_; ++c) {
        const bool same = c > 0 && !separate;
        stage.constants.push_back(same ? stage.constants.back() : One(kind, j));
      }
    }
    sums_ += kind == Kind::kSum;
    stages_.push_back(std::move(stage));
  }

  // Representable in float.
  double One(Kind kind, int j) {
    if (kind == Kind::kClip) return j == 0 ? -0.75 : 1.25;
    if (kind == Kind::kThreshold) return 0.125;
    if (kind == Kind::kLog || kind == Kind::kPower) return static_cast<float>(Draw(0.5, 1.5));
    return static_cast<float>(Draw(-1.25, 1.25));
  }

  std::mt19937 random_;
  int64_t channels_;
  int sums_ = 0;
  std::vector<Stage> stages_;
};

class ChainTest : public testing::TestWithParam<DeviceType> {
 protected:
  static Numbers Rounded(const Numbers& values) {
    return Array(GetParam().device, GetParam().type, values).Read();
  }

  static void Check(const std::vector<Stage>& stages, const ChainOp::Shape& shape, bool in_place) {
    const auto [device, type] = GetParam();
    std::vector<Kind> kinds;
    for (const Stage& stage : stages) kinds.push_back(stage.kind);
    const ChainOp op(device, type, kinds, shape);
    Numbers table;
    int constants = 0;
    std::vector<std::unique_ptr<Array>> arrays;
    std::vector<Numbers> summands;
    std::vector<DevicePtr> pointers;
    std::string names;
    for (const Stage& stage : stages) {
      names += ElementFunction::RowOf(stage.kind).name + " ";
      for (int j = 0; j < ElementFunction::RowOf(stage.kind).constants; ++j, ++constants) {
        for (int64_t c = 0; c < op.width(); ++c) {
          table.push_back(stage.constants[j * shape.channels + c % shape.channels]);
        }
      }
      if (stage.kind != Kind::kSum) continue;
      summands.push_back(Rounded(Values(shape.count, 10 + static_cast<int>(summands.size()))));
      arrays.push_back(std::make_unique<Array>(device, type, summands.back()));
      pointers.push_back(*arrays.back());
    }
    EXPECT_EQ(op.constants(), constants);
    const Numbers x = Rounded(Values(shape.count, 3));
    const Array table_array(device, type == kDouble ? kDouble : kFloat, table);
    const Array x_array(device, type, x);
    const Array y_array(device, type, Numbers(shape.count, 99));
    device->ResetCounters();
    op.Run(table_array, x_array, pointers, in_place ? x_array : y_array);
    EXPECT_EQ(device->counters().launches, shape.count > 0);
    const Numbers y = (in_place ? x_array : y_array).Read();
    for (int64_t i = 0; i < shape.count; ++i) {
      const int64_t channel = i / shape.inner % shape.channels;
      double expected = x[i];
      size_t sum = 0;
      for (const Stage& stage : stages) {
        double k[3] = {};
        for (int j = 0; j < ElementFunction::RowOf(stage.kind).constants; ++j) {
          k[j] = stage.constants[j * shape.channels + channel];
        }
        const double u = stage.kind == Kind::kSum ? summands[sum++][i] : 0;
        expected = ElementFunction{stage.kind, k[0], k[1], k[2]}.value(expected, u);
      }
      ASSERT_NEAR(y[i], expected, 4 * Tolerance(type) * (1 + std::abs(expected)))
          << "functions " << names << "element " << i << " of " << shape.count << ", "
          << shape.channels << " channels of " << shape.inner;
    }
  }
};

// One channel; channels that are neighbours, few and many, with a last row that is not whole on the
// host; rows shorter and longer than a span and than a piece.
const ChainOp::Shape kShapes[] = {{1, 1, 1},         {3001, 1, 1},          {3 * 701, 3, 1},
                                  {8 * 130, 8, 1},   {300 * 5, 300, 1},     {64 * 9, 64, 1},
                                  {3 * 5 * 7, 5, 7}, {2 * 4 * 600, 4, 600}, {2 * 3 * 64, 3, 64}};

TEST_P(ChainTest, RandomChains) {
  const auto [device, type] = GetParam();
  // PoCL takes seconds for a program, and each chain is one.
  const bool slow = CompilesSlowly(*device);
  const int chains = slow ? 3 : 40;
  for (int seed = 0; seed < chains; ++seed) {
    const int length = slow ? 6 + 3 * seed : 1 + seed % ChainOp::kMaxStages;
    for (const ChainOp::Shape& shape : kShapes) {
      Check(RandomChain(seed, shape.channels).Make(length), shape, seed % 2 == 1);
    }
  }
}

TEST_P(ChainTest, EachFunction) {
  const auto [device, type] = GetParam();
  if (CompilesSlowly(*device) && type != kFloat) {
    GTEST_SKIP() << "each function in float alone";
  }
  // The second one is constant, so that the first does not matter; later ones do.
  for (const Kind kind : ElementFunction::Kinds()) {
    Stage stage{kind, Numbers(ElementFunction::RowOf(kind).constants, 0.5)};
    std::vector<Stage> stages{stage};
    if (kind == Kind::kLog || kind == Kind::kPower) {
      stages.insert(stages.begin(), Stage{Kind::kAbsVal, {}});
    }
    Check(stages, {257, 1, 1}, false);
  }
}

TEST_P(ChainTest, NothingToCompute) {
  Check({{Kind::kReLU, {}}}, {0, 1, 1}, false);
  Check({{Kind::kAffine, Numbers(6, 2)}}, {0, 3, 4}, false);
}

// NaN stays NaN, infinities are values.
TEST_P(ChainTest, SpecialValues) {
  const auto [device, type] = GetParam();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Array x(device, type, {std::nan(""), kInfinity, -kInfinity});
  const Array table(device, type == kDouble ? kDouble : kFloat, {2, 1});
  ChainOp(device, type, {Kind::kAffine, Kind::kReLU}, {3, 1, 1}).Run(table, x, {}, x);
  const Numbers y = x.Read();
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], kInfinity);
  EXPECT_EQ(y[2], 0);
}

INSTANTIATE_TEST_SUITE_P(All, ChainTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(ChainErrorTest, Limits) {
  Device* const cpu = Runtime::Get().cpu();
  const auto message = [&](DataType type, std::vector<Kind> kinds, ChainOp::Shape shape) {
    try {
      ChainOp(cpu, type, std::move(kinds), shape);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto find = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_EQ(message(kFloat, std::vector<Kind>(12, Kind::kReLU), {4, 1, 1}), "");
  EXPECT_TRUE(find(message(kFloat, std::vector<Kind>(13, Kind::kReLU), {4, 1, 1}),
                   "at most 12 functions and 4 sums; this one has 13 and 0"));
  EXPECT_TRUE(find(message(kFloat, std::vector<Kind>(5, Kind::kSum), {4, 1, 1}), "5 and 5"));
  EXPECT_TRUE(find(message(kQuant8, {Kind::kReLU}, {4, 1, 1}), "only float kinds"));
  EXPECT_TRUE(find(message(kFloat, {Kind::kAffine}, {10, 3, 1}), "3 channels"));
}

}  // namespace
}  // namespace caffe

// One test for every row of the table of element-wise layers.
#include "caffe/layers/pointwise_layer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/in_place.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

using Gradient = PointwiseFormula::Gradient;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// y and dy/dx of x, worked out without the table.
struct Point {
  double x, y, slope;
};

// A row with parameters.
struct Sample {
  const char* type;
  const char* parameters;
  // Inputs of the tests, in the domain of the formula.
  double low, high;
  std::vector<Point> points;
  // Where there is no derivative.
  std::vector<double> kinks;
  // The error of values in float, relative to them: roundings of the formula's steps.
  double float_error = 2.5e-7;
};

const std::vector<Sample>& Samples() {
  static const auto* const samples = new std::vector<Sample>{
      {"AbsVal", "", -2, 2, {{-1.5, 1.5, -1}, {-0.0, 0, 0}, {0, 0, 0}, {0.25, 0.25, 1}}, {0}},
      {"BNLL",
       "",
       -20,
       20,
       {{0, 0.6931471805599453, 0.5},
        {1, 1.3132616875182228, 0.7310585786300049},
        {-1, 0.3132616875182228, 0.2689414213699951},
        {-15, 3.0590227371376e-07, 3.0590222692562e-07}},
       {}},
      {"Clip",
       "clip_param { min: -0.5 max: 1.25 }",
       -2,
       2,
       {{-0.75, -0.5, 0}, {-0.5, -0.5, 1}, {0.25, 0.25, 1}, {1.25, 1.25, 1}, {1.5, 1.25, 0}},
       {-0.5, 1.25}},
      {"ELU",
       "",
       -20,
       1,
       {{-2, -0.8646647167633873, 0.1353352832366127},
        {-0.5, -0.3934693402873666, 0.6065306597126334},
        {0.75, 0.75, 1}},
       {0}},
      {"ELU",
       "elu_param { alpha: 0.5 }",
       -4,
       4,
       {{-2, -0.43233235838169365, 0.06766764161830635}, {0.75, 0.75, 1}},
       {0}},
      {"ELU", "elu_param { alpha: 0 }", -4, 4, {{-2, 0, 0}, {0.75, 0.75, 1}}, {0}},
      {"ELU",
       "elu_param { alpha: -0.25 }",
       -4,
       4,
       {{-2, 0.21616617919084682, -0.033833820809153176},
        {-0.5, 0.09836733507184164, -0.15163266492815836},
        {0.75, 0.75, 1}},
       {0}},
      {"Exp",
       "",
       -10,
       10,
       {{-1, 0.36787944117144233, 0.36787944117144233},
        {0, 1, 1},
        {2, 7.38905609893065, 7.38905609893065}},
       {}},
      {"Exp",
       "exp_param { scale: 2 shift: 0.5 }",
       -4,
       4,
       {{-1, 0.22313016014842982, 0.44626032029685964},
        {0.25, 2.718281828459045, 5.43656365691809}},
       {},
       1e-6},
      {"Exp",
       "exp_param { base: 2 }",
       -8,
       8,
       {{3, 8, 5.545177444479562}, {-1, 0.5, 0.34657359027997264}},
       {},
       2e-6},
      {"Exp",
       "exp_param { base: 10 scale: 0.5 shift: -0.25 }",
       -4,
       4,
       {{0.5, 1, 1.151292546497023}, {2.5, 10, 11.51292546497023}},
       {},
       2e-6},
      {"Exp",
       "exp_param { base: 0.5 scale: 3 shift: 1 }",
       -2,
       2,
       {{1, 0.0625, -0.12996509635498973}, {-1, 4, -8.317766166719343}},
       {},
       2e-6},
      {"Exp", "exp_param { base: 1 shift: 1 }", -2, 2, {{0.5, 1, 0}}, {}},
      {"HardSigmoid",
       "",
       -4,
       4,
       {{-3, 0, 0},
        {0, 0.5, 0.20000000298023224},
        {1, 0.7000000029802322, 0.20000000298023224},
        {3, 1, 0}},
       {-2.5, 2.5},
       2e-5},
      {"HardSigmoid",
       "hard_sigmoid_param { alpha: -0.5 beta: 0.25 }",
       -3,
       3,
       {{-2, 1, 0}, {-1, 0.75, -0.5}, {0, 0.25, -0.5}, {1, 0, 0}},
       {-1.5, 0.5},
       1e-6},
      {"Log",
       "",
       0.05,
       1000,
       {{0.5, -0.6931471805599453, 2}, {1, 0, 1}, {7, 1.9459101490553132, 0.14285714285714285}},
       {}},
      {"Log",
       "log_param { scale: 2 shift: 4 }",
       -1,
       1,
       {{0, 1.3862943611198906, 0.5}, {1, 1.791759469228055, 0.3333333333333333}},
       {},
       4e-7},
      {"Log",
       "log_param { base: 2 shift: 1.5 }",
       0.5,
       4,
       {{0.5, 1, 0.7213475204444817}, {2.5, 2, 0.36067376022224085}},
       {},
       4e-7},
      {"Log",
       "log_param { base: 10 scale: 0.5 shift: 1 }",
       2,
       6,
       {{2, 0.30102999566398114, 0.10857362047581294},
        {6, 0.6020599913279623, 0.05428681023790647}},
       {},
       6e-7},
      {"Log",
       "log_param { base: 0.5 scale: -3 shift: 5 }",
       -1,
       1,
       {{-1, -3, 0.5410106403333613}, {1, -1, 2.1640425613334453}},
       {},
       6e-7},
      {"Power", "", -2, 2, {{-1.5, -1.5, 1}, {0, 0, 1}, {2, 2, 1}}, {}},
      {"Power",
       "power_param { power: 0 scale: 3 shift: 1 }",
       -1,
       1,
       {{-1, 1, 0}, {0, 1, 0}, {0.5, 1, 0}},
       {}},
      {"Power",
       "power_param { power: 2 scale: 0 shift: 1.5 }",
       -1,
       1,
       {{-1, 2.25, 0}, {0.5, 2.25, 0}},
       {}},
      {"Power", "power_param { power: 0 scale: 0 shift: 0 }", -1, 1, {{-1, 1, 0}, {0.5, 1, 0}}, {}},
      {"Power",
       "power_param { power: 1 scale: -2 shift: 0.5 }",
       0.5,
       2,
       {{0.5, -0.5, -2}, {2, -3.5, -2}},
       {},
       1e-6},
      {"Power",
       "power_param { power: 2 scale: 1 shift: 0 }",
       -1,
       1,
       {{-0.5, 0.25, -1}, {0, 0, 0}, {3, 9, 6}},
       {}},
      {"Power",
       "power_param { power: 2 scale: 3 shift: -0.5 }",
       -1,
       -0.1,
       {{-0.5, 4, -12}, {0.5, 1, 6}, {0, 0.25, -3}},
       {},
       4e-6},
      {"Power",
       "power_param { power: 3 scale: 2 shift: 0 }",
       -1,
       1,
       {{-1, -8, 24}, {0, 0, 0}, {0.5, 1, 6}},
       {},
       1e-6},
      {"Power",
       "power_param { power: -1 scale: 1 shift: 3 }",
       -1,
       1,
       {{-1, 0.5, -0.25}, {1, 0.25, -0.0625}},
       {},
       1e-6},
      {"Power",
       "power_param { power: 0.5 scale: 1 shift: 0 }",
       0.01,
       4,
       {{4, 2, 0.25}, {0.25, 0.5, 1}, {1, 1, 0.5}},
       {},
       1e-6},
      {"Power",
       "power_param { power: -2.5 scale: 1 shift: 2 }",
       -1,
       1,
       {{-1, 1, -2.5}, {2, 0.03125, -0.01953125}},
       {},
       2e-6},
      {"Power",
       "power_param { power: -2 scale: 1.5 shift: -3 }",
       -1,
       1,
       {{0, 0.1111111111111111, 0.1111111111111111}, {1, 0.4444444444444444, 0.8888888888888888}},
       {},
       2e-6},
      {"Power",
       "power_param { power: -7.25 scale: 1.5 shift: 0.25 }",
       0.5,
       30,
       {{0.5, 1, -10.875}},
       {},
       4e-6},
      {"ReLU6",
       "",
       -3,
       9,
       {{-2, 0, 0}, {0, 0, 0}, {0.5, 0.5, 1}, {5.5, 5.5, 1}, {6, 6, 0}, {7, 6, 0}},
       {0, 6}},
      {"ReLU6",
       "relu6_param { negative_slope: 0.25 }",
       -3,
       9,
       {{-2, -0.5, 0.25}, {0.5, 0.5, 1}, {7, 6, 0}},
       {0, 6}},
      {"ReLU6",
       "relu_param { negative_slope: -0.5 }",
       -3,
       9,
       {{-2, 1, -0.5}, {-14, 7, -0.5}, {0.5, 0.5, 1}, {7, 6, 0}},
       {0, 6}},
      {"Sigmoid",
       "",
       -20,
       20,
       {{-4, 0.01798620996209156, 0.017662706213291118},
        {0, 0.5, 0.25},
        {1, 0.7310585786300049, 0.19661193324148188},
        {-20, 2.0611536181902037e-09, 2.0611536139418496e-09}},
       {},
       4e-7},
      {"Swish",
       "",
       -20,
       20,
       {{0, 0, 0.5},
        {1, 0.7310585786300049, 0.9276705118714869},
        {-1, -0.2689414213699951, 0.07232948812851313},
        {20, 19.99999995877693, 1.0000000391619182}},
       {},
       4e-7},
      {"Swish",
       "swish_param { beta: -1.5 }",
       -8,
       8,
       // The same with s(-1.5) = 0.18242552380635635.
       {{1, 0.18242552380635635,
         0.18242552380635635 - 1.5 * 0.18242552380635635 * 0.8175744761936437},
        {0, 0, 0.5}},
       {},
       8e-7},
      {"TanH",
       "",
       -10,
       10,
       {{-0.5, -0.46211715726000974, 0.7864477329659274},
        {0, 0, 1},
        {1, 0.7615941559557649, 0.41997434161402614}},
       {}},
      {"Threshold",
       "threshold_param { threshold: 0.5 }",
       -1,
       2,
       {{0.25, 0, 0}, {0.5, 0, 0}, {0.75, 1, 0}, {-3, 0, 0}},
       {0.5}},
  };
  return *samples;
}

std::string Text(const Sample& sample) {
  return Concat("type: '", sample.type, "' ", sample.parameters);
}

LayerTester Make(const Sample& sample, Device* device, DataType type, const Shape& shape) {
  return LayerTester(Text(sample), device, TypeTriple::Equal(type), {shape});
}

const PointwiseFormula& FormulaOf(LayerTester& layer) {
  return dynamic_cast<Pointwise&>(layer.layer()).formula();
}

// `count` float numbers from low to high in another order, none nearer than 1/64 to a kink.
std::vector<double> Inputs(const Sample& sample, int64_t count) {
  std::vector<double> values(count);
  for (int64_t i = 0; i < count; ++i) {
    const double part = static_cast<double>(i * 37 % count) / static_cast<double>(count - 1);
    values[i] = static_cast<float>(sample.low + (sample.high - sample.low) * part);
    for (const double kink : sample.kinks) {
      if (std::abs(values[i] - kink) < 1.0 / 64) values[i] = kink + 1.0 / 32;
    }
  }
  return values;
}

double Largest(DataType type) {
  if (type == kHalf) return 65504;
  return type == kDouble ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
}

// Equal within the type's tolerance, where NaN equals NaN and what exceeds the type is infinite.
void ExpectAlike(double actual, double expected, DataType type, const std::string& what) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(actual)) << what << " is " << actual << " instead of NaN";
  } else if (std::abs(expected) > Largest(type)) {
    EXPECT_EQ(actual, expected > 0 ? kInfinity : -kInfinity) << what;
  } else {
    EXPECT_LE(std::abs(actual - expected), Tolerance(type) * std::max(1.0, std::abs(expected)))
        << what << " is " << actual << " instead of " << expected;
  }
}

TEST(PointwiseTableTest, IsSortedAndEveryRowHasASample) {
  const std::vector<PointwiseRow>& rows = PointwiseRows();
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_TRUE(i == 0 || std::string(rows[i - 1].type) < rows[i].type) << rows[i].type;
    EXPECT_TRUE(std::any_of(Samples().begin(), Samples().end(), [&](const Sample& sample) {
      return std::string(sample.type) == rows[i].type;
    })) << rows[i].type;
    EXPECT_EQ(TraitsOf(rows[i].type).backward, rows[i].backward) << rows[i].type;
    EXPECT_TRUE(TraitsOf(rows[i].type).in_place) << rows[i].type;
    EXPECT_EQ(TraitsOf(rows[i].type).summary, rows[i].summary) << rows[i].type;
  }
}

// The formulas of the table against numbers and against each other.
TEST(PointwiseTableTest, FormulasGiveThePoints) {
  for (const Sample& sample : Samples()) {
    LayerTester layer = Make(sample, Runtime::Get().cpu(), kDouble, {2});
    const PointwiseFormula& formula = FormulaOf(layer);
    const bool backward = formula.gradient != Gradient::kNone;
    EXPECT_EQ(TraitsOf(sample.type).backward, backward) << Text(sample);
    for (const Point& point : sample.points) {
      EXPECT_NEAR(formula.function.value(point.x), point.y, 1e-12)
          << Text(sample) << " of " << point.x;
      if (!backward) continue;
      EXPECT_NEAR(formula.function.slope(point.x), point.slope, 1e-12)
          << Text(sample) << " of " << point.x;
    }
    for (const double x : Inputs(sample, 101)) {
      if (!backward) break;
      const double h = 1e-6;
      const double difference =
          (formula.function.value(x + h) - formula.function.value(x - h)) / (2 * h);
      EXPECT_NEAR(formula.function.slope(x), difference, 1e-6 * std::max(1.0, std::abs(difference)))
          << Text(sample) << " of " << x;
    }
  }
}

class PointwiseLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(PointwiseLayerTest, ForwardAndBackwardByHand) {
  const auto [device, type] = GetParam();
  for (const Sample& sample : Samples()) {
    const int64_t count = static_cast<int64_t>(sample.points.size());
    LayerTester layer = Make(sample, device, type, {count});
    std::vector<double> x, y, slope;
    for (const Point& point : sample.points) {
      x.push_back(point.x);
      y.push_back(point.y);
      slope.push_back(point.slope);
    }
    layer.SetBottom(0, x);
    layer.Forward();
    ExpectNear(layer.Top(), y, Tolerance(type), "y of " + Text(sample));
    if (!TraitsOf(sample.type).backward) continue;
    layer.SetTopDiff(0, std::vector<double>(x.size(), 1));
    layer.Backward();
    ExpectNear(layer.BottomDiff(0), slope, Tolerance(type), "dE/dx of " + Text(sample));
  }
}

// Many values, and the same bits in place.
TEST_P(PointwiseLayerTest, ForwardAndBackward) {
  const auto [device, type] = GetParam();
  for (const Sample& sample : Samples()) {
    LayerTester layer = Make(sample, device, type, {2, 3, 5, 7});
    layer.SetBottom(0, Inputs(sample, 210));
    layer.Forward();
    ASSERT_EQ(layer.top().shape(), layer.bottom().shape());
    const PointwiseFormula& formula = FormulaOf(layer);
    const std::vector<double> x = layer.Bottom(0);
    std::vector<double> y(x.size());
    std::transform(x.begin(), x.end(), y.begin(),
                   [&formula](double v) { return formula.function.value(v); });
    ExpectNear(layer.Top(), y, Tolerance(type), "y of " + Text(sample));
    if (!TraitsOf(sample.type).backward) {
      const BlobVec blob{&layer.bottom()};
      layer.layer().Forward(blob, blob);
      EXPECT_EQ(layer.Bottom(0), layer.Top()) << Text(sample);
      EXPECT_THROW(layer.Backward(), Error) << Text(sample);
      continue;
    }
    layer.RandomTopDiff();
    layer.Backward();
    std::vector<double> expected = layer.top().DiffAsDouble();
    for (size_t i = 0; i < x.size(); ++i) expected[i] *= formula.function.slope(x[i]);
    ExpectNear(layer.BottomDiff(0), expected, Tolerance(type), "dE/dx of " + Text(sample));

    const InPlaceResult in_place = RunInPlace(layer);
    EXPECT_EQ(in_place.data, layer.Top()) << Text(sample);
    EXPECT_EQ(in_place.diff, layer.BottomDiff(0)) << Text(sample);
  }
}

// Blobs without axes, of one element, of many rows, and without elements.
TEST_P(PointwiseLayerTest, Shapes) {
  const auto [device, type] = GetParam();
  for (const Sample& sample : Samples()) {
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{37}, Shape{3, 1, 1, 1, 2}, Shape{0, 3}}) {
      LayerTester layer = Make(sample, device, type, {5});
      layer.bottom().Reshape(shape);
      const int64_t count = layer.bottom().count();
      layer.bottom().SetData(std::vector<double>(count, static_cast<float>(sample.high)));
      layer.Forward();
      ASSERT_EQ(layer.top().shape(), shape) << Text(sample);
      const PointwiseFormula& formula = FormulaOf(layer);
      const std::vector<double> x = layer.Bottom(0);
      std::vector<double> expected(x.size());
      std::transform(x.begin(), x.end(), expected.begin(),
                     [&formula](double v) { return formula.function.value(v); });
      ExpectNear(layer.Top(), expected, Tolerance(type), Text(sample));
      if (!TraitsOf(sample.type).backward) continue;
      layer.SetTopDiff(0, std::vector<double>(count, 1));
      layer.Backward();
      std::transform(x.begin(), x.end(), expected.begin(),
                     [&formula](double v) { return formula.function.slope(v); });
      ExpectNear(layer.BottomDiff(0), expected, Tolerance(type), Text(sample));
      const InPlaceResult in_place = RunInPlace(layer);
      EXPECT_EQ(in_place.data, layer.Top()) << Text(sample);
      EXPECT_EQ(in_place.diff, layer.BottomDiff(0)) << Text(sample);
    }
  }
}

// The ends of the range keep their limits, and NaN stays NaN: else a net that diverged would look
// healthy.
TEST_P(PointwiseLayerTest, ExtremeValuesAndNan) {
  const auto [device, type] = GetParam();
  const std::vector<double> x{-kInfinity, -30000, -200, -0.0, 0.0, 200, 30000, kInfinity, kNan};
  for (const Sample& sample : Samples()) {
    LayerTester layer = Make(sample, device, type, {static_cast<int64_t>(x.size())});
    layer.SetBottom(0, x);
    layer.Forward();
    const PointwiseFormula& formula = FormulaOf(layer);
    const std::vector<double> rounded = layer.Bottom(0), y = layer.Top();
    const auto what = [&](size_t i) { return Concat(Text(sample), " of ", x[i]); };
    for (size_t i = 0; i < x.size(); ++i) {
      ExpectAlike(y[i], formula.function.value(rounded[i]), type, "y, " + what(i));
    }
    const bool constant = formula.function.value(0) == formula.function.value(1);
    EXPECT_TRUE(constant || std::isnan(y.back())) << Text(sample);
    if (!TraitsOf(sample.type).backward) continue;
    layer.SetTopDiff(0, std::vector<double>(x.size(), 1));
    layer.Backward();
    const std::vector<double> diff = layer.BottomDiff(0);
    for (size_t i = 0; i < x.size(); ++i) {
      const double slope = formula.function.slope(rounded[i]);
      if (!std::isnan(slope)) ExpectAlike(diff[i], slope, type, "dE/dx, " + what(i));
    }
  }
}

TEST_P(PointwiseLayerTest, SignsOfZeroAndSaturation) {
  const auto [device, type] = GetParam();
  const auto run = [device = device, type = type](const std::string& text,
                                                  const std::vector<double>& x) {
    LayerTester layer(text, device, TypeTriple::Equal(type), {{static_cast<int64_t>(x.size())}});
    layer.SetBottom(0, x);
    layer.Forward();
    return layer.Top();
  };
  EXPECT_FALSE(std::signbit(run("type: 'AbsVal'", {-0.0})[0])) << "|-0| is 0";
  EXPECT_EQ(run("type: 'TanH'", {0, 100, -100}), (std::vector<double>{0, 1, -1}));
  EXPECT_EQ(run("type: 'Sigmoid'", {-kInfinity, -30000, 0, 30000, kInfinity}),
            (std::vector<double>{0, 0, 0.5, 1, 1}));
  EXPECT_EQ(run("type: 'Log'", {0, 1}), (std::vector<double>{-kInfinity, 0}));
  EXPECT_TRUE(std::isnan(run("type: 'Log'", {-1})[0]));
  EXPECT_TRUE(std::isnan(run("type: 'Power' power_param { power: 0.5 }", {-1})[0]));
}

INSTANTIATE_TEST_SUITE_P(All, PointwiseLayerTest, testing::ValuesIn(DevicesAndTypes(FloatTypes())),
                         [](const auto& info) { return TestName(info.param); });

// Float, half and bfloat16 use no function of a vendor's library.
TEST(PointwiseLayerBitsTest, AreTheSameOnEveryDevice) {
  const int64_t count = 10007;
  for (const Sample& sample : Samples()) {
    for (DataType type : {kFloat, kHalf, kBfloat16}) {
      std::vector<double> y, x_diff;
      for (Device* device : TestDevices()) {
        LayerTester layer = Make(sample, device, type, {count});
        layer.SetBottom(0, Inputs(sample, count));
        layer.Forward();
        if (y.empty()) y = layer.Top();
        EXPECT_EQ(layer.Top(), y) << Text(sample) << device->info().id;
        if (!TraitsOf(sample.type).backward) continue;
        layer.RandomTopDiff();
        layer.Backward();
        if (x_diff.empty()) x_diff = layer.BottomDiff(0);
        EXPECT_EQ(layer.BottomDiff(0), x_diff) << Text(sample) << device->info().id;
      }
    }
  }
}

// Small values keep their digits, too.
TEST(PointwiseLayerBitsTest, FloatsAreAccurate) {
  const int64_t count = 10007;
  for (const Sample& sample : Samples()) {
    LayerTester layer = Make(sample, Runtime::Get().cpu(), kFloat, {count});
    layer.SetBottom(0, Inputs(sample, count));
    layer.Forward();
    const std::vector<double> x = layer.Bottom(0), y = layer.Top();
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = FormulaOf(layer).function.value(x[i]);
      ASSERT_NEAR(y[i], expected, sample.float_error * std::abs(expected) + 1e-45)
          << Text(sample) << " of " << x[i];
    }
  }
}

// The ends of the range of exponentials, results without leading digits among them.
TEST(PointwiseLayerBitsTest, ExpOverItsWholeRange) {
  const Sample sample{"Exp", "", -100, 88, {}, {}};
  std::vector<double> expected;
  for (Device* device : TestDevices()) {
    LayerTester layer = Make(sample, device, kFloat, {100003});
    layer.SetBottom(0, Inputs(sample, 100003));
    layer.Forward();
    if (expected.empty()) expected = layer.Top();
    EXPECT_EQ(layer.Top(), expected) << device->info().id;
  }
  const std::vector<double> x = Inputs(sample, 100003);
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(expected[i], std::exp(x[i]), 2e-7 * std::exp(x[i]) + 1e-45) << x[i];
  }
}

TEST(PointwiseLayerGradientTest, AgreesWithDifferences) {
  for (const Sample& sample : Samples()) {
    if (!TraitsOf(sample.type).backward) continue;
    LayerTester layer = Make(sample, Runtime::Get().cpu(), kDouble, {2, 3, 4, 5});
    layer.SetBottom(0, Inputs(sample, 120));
    SCOPED_TRACE(Text(sample));
    layer.CheckGradient();
  }
}

// In place a copy of the bottom is made only where the gradient reads it, and for training only.
TEST(PointwiseLayerCopyTest, IsMadeForAGradientOfTheBottomOnly) {
  Device* cpu = Runtime::Get().cpu();
  for (const Sample& sample : Samples()) {
    LayerTester layer = Make(sample, cpu, kFloat, {4});
    const BlobVec blob{&layer.bottom()};
    const Gradient gradient = FormulaOf(layer).gradient;
    const bool reads = gradient == Gradient::kOfBottom || gradient == Gradient::kOfBoth;
    layer.Forward();
    if (reads) {
      layer.bottom().SetDiff({1, 1, 1, 1});
      EXPECT_THROW(layer.layer().Backward(blob, {true}, blob), Error)
          << Text(sample) << ": there was no forward in place";
    }
    cpu->ResetCounters();
    layer.layer().Forward(blob, blob);
    EXPECT_EQ(cpu->counters().copies, reads ? 1 : 0) << Text(sample);
    layer.layer().set_need_backward(false);
    cpu->ResetCounters();
    layer.layer().Forward(blob, blob);
    EXPECT_EQ(cpu->counters().copies, 0) << Text(sample);
  }
}

std::string ErrorOfLayer(const std::string& text, int bottoms = 1) {
  return ErrorOf([&] {
    LayerTester(text, Runtime::Get().cpu(), TypeTriple::Equal(kFloat),
                std::vector<Shape>(bottoms, Shape{2}));
  });
}

TEST(PointwiseLayerErrorsTest, OfBottoms) {
  for (const Sample& sample : Samples()) {
    EXPECT_TRUE(Holds(ErrorOfLayer(Text(sample), 2), "takes 1 bottom"));
  }
}

TEST(PointwiseLayerErrorsTest, OfParameters) {
  EXPECT_TRUE(Holds(ErrorOfLayer("type: 'Clip'"),
                    "tested (Clip): clip_param needs both min and max; they are missing"));
  EXPECT_TRUE(Holds(ErrorOfLayer("type: 'Clip' clip_param { max: 1 }"), "; min is missing"));
  EXPECT_TRUE(Holds(ErrorOfLayer("type: 'Clip' clip_param { min: 1 }"), "; max is missing"));
  EXPECT_TRUE(Holds(ErrorOfLayer("type: 'Clip' clip_param { min: 2 max: 1 }"),
                    "min 2 must not be larger than max 1"));
  EXPECT_TRUE(Holds(ErrorOfLayer("type: 'ReLU6' relu6_param { negative_slope: 1 } relu_param { }"),
                    "give relu6_param or relu_param, not both"));
  const auto exp = [](double base, double shift) {
    return ErrorOfLayer(Concat("type: 'Exp' exp_param { base: ", base, " shift: ", shift, " }"));
  };
  EXPECT_EQ(exp(0.1, 0), "");
  for (const double base : {0.0, -2.0, kInfinity, kNan}) {
    EXPECT_TRUE(Holds(exp(base, 0), "must be positive, or -1 for e")) << base;
  }
  EXPECT_TRUE(Holds(exp(10, 1000), "do not give finite factors")) << "10^1000";
  const auto log = [](double base) {
    return ErrorOfLayer(Concat("type: 'Log' log_param { base: ", base, " shift: 2 }"));
  };
  EXPECT_EQ(log(0.1), "");
  for (const double base : {0.0, 1.0, -2.0, kNan}) {
    EXPECT_TRUE(Holds(log(base), "must be positive and not 1, or -1 for e")) << base;
  }
}

}  // namespace
}  // namespace caffe

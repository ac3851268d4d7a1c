#include <gtest/gtest.h>

#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

const char* const kOperations[] = {"SUM", "ASUM", "SUMSQ", "MEAN"};

LayerTester MakeReduction(const std::string& parameter, const Shape& shape,
                          Device* device = Runtime::Get().cpu(), DataType type = kFloat) {
  return LayerTester("type: 'Reduction' reduction_param { " + parameter + " }", device,
                     TypeTriple::Equal(type), {shape});
}

double Term(const std::string& operation, double x) {
  return operation == "ASUM" ? std::abs(x) : operation == "SUMSQ" ? x * x : x;
}

double Slope(const std::string& operation, double x) {
  if (operation == "ASUM") return x > 0 ? 1 : x < 0 ? -1 : 0;
  return operation == "SUMSQ" ? 2 * x : 1;
}

class ReductionLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(ReductionLayerTest, ByHand) {
  const auto [device, type] = GetParam();
  struct Hand {
    const char* operation;
    std::vector<double> y, x_diff;
  };
  // Rows (-1, 2, 0) and (0.5, -4, 0.5) with coeff 2; the gradients of y are 0.5 and 1.
  for (const Hand& hand :
       {Hand{"SUM", {2, -6}, {1, 1, 1, 2, 2, 2}}, Hand{"ASUM", {6, 10}, {-1, 1, 0, 2, -2, 2}},
        Hand{"SUMSQ", {10, 33}, {-2, 4, 0, 2, -16, 2}},
        Hand{"MEAN", {2.0 / 3, -2}, {1.0 / 3, 1.0 / 3, 1.0 / 3, 2.0 / 3, 2.0 / 3, 2.0 / 3}}}) {
    LayerTester layer =
        MakeReduction(Concat("axis: 1 coeff: 2 operation: ", hand.operation), {2, 3}, device, type);
    layer.SetBottom(0, {-1, 2, 0, 0.5, -4, 0.5});
    layer.Forward();
    ASSERT_EQ(layer.top().shape(), Shape{2});
    ExpectNear(layer.Top(), hand.y, Tolerance(type), hand.operation);
    layer.SetTopDiff(0, {0.5, 1});
    layer.Backward();
    ExpectNear(layer.BottomDiff(0), hand.x_diff, Tolerance(type), hand.operation);
  }
}

TEST_P(ReductionLayerTest, EveryAxis) {
  const auto [device, type] = GetParam();
  for (const Shape& shape : {Shape{2, 3, 4, 5}, Shape{1, 7, 1, 3}, Shape{37}, Shape{3, 211}}) {
    const int axes = static_cast<int>(shape.size());
    for (const std::string operation : kOperations) {
      for (int axis = -axes; axis < axes; ++axis) {
        LayerTester layer = MakeReduction(
            Concat("operation: ", operation, " coeff: 0.5 axis: ", axis), shape, device, type);
        std::vector<double> x = layer.Bottom(0);
        x[1] = 0;
        layer.SetBottom(0, x);
        layer.Forward();
        const int place = axis < 0 ? axis + axes : axis;
        ASSERT_EQ(layer.top().shape(), Shape(shape.begin(), shape.begin() + place));
        layer.RandomTopDiff();
        layer.Backward();
        const std::vector<double> y_diff = layer.top().DiffAsDouble();
        const size_t count = x.size() / y_diff.size();
        const double factor = operation == "MEAN" ? 0.5 / static_cast<double>(count) : 0.5;
        std::vector<double> y(y_diff.size()), x_diff(x.size());
        for (size_t i = 0; i < x.size(); ++i) {
          y[i / count] += factor * Term(operation, x[i]);
          x_diff[i] = factor * Slope(operation, x[i]) * y_diff[i / count];
        }
        const std::string what = Concat(operation, " from axis ", axis);
        ExpectNear(layer.Top(), y, Tolerance(type), what);
        ExpectNear(layer.BottomDiff(0), x_diff, Tolerance(type), what);
      }
    }
  }
}

// Work items share a long sum, and two runs give the same bits.
TEST_P(ReductionLayerTest, LongSums) {
  const auto [device, type] = GetParam();
  LayerTester layer = MakeReduction("operation: SUMSQ", {100003}, device, type);
  layer.Forward();
  double sum = 0;
  for (const double x : layer.Bottom(0)) sum += x * x;
  const std::vector<double> first = layer.Top();
  ExpectNear(first, {sum}, Tolerance(type), "sum");
  layer.Forward();
  EXPECT_EQ(layer.Top(), first);
}

TEST_P(ReductionLayerTest, NothingToSum) {
  const auto [device, type] = GetParam();
  LayerTester none = MakeReduction("axis: 1", {0, 3}, device, type);
  none.Forward();
  EXPECT_EQ(none.top().shape(), Shape{0});
  EXPECT_NO_THROW(none.Backward());
  LayerTester all = MakeReduction("axis: 0", {0, 3}, device, type);
  all.Forward();
  EXPECT_EQ(all.Top(), std::vector<double>{0});
  EXPECT_NO_THROW(all.Backward());
}

INSTANTIATE_TEST_SUITE_P(All, ReductionLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(ReductionLayerGradientTest, AgreesWithDifferences) {
  for (const std::string operation : kOperations) {
    for (const int axis : {0, 1, 2}) {
      MakeReduction(Concat("operation: ", operation, " coeff: -1.5 axis: ", axis), {2, 3, 4},
                    Runtime::Get().cpu(), kDouble)
          .CheckGradient();
    }
  }
}

TEST(ReductionLayerErrorsTest, NameTheValues) {
  EXPECT_TRUE(Holds(ErrorOf([] { MakeReduction("axis: 2", {2, 3}); }), "axis 2 is out of range"));
  EXPECT_TRUE(Holds(ErrorOf([] { MakeReduction("", {}); }), "blob bottom0 has no axes to reduce"));
}

}  // namespace
}  // namespace caffe

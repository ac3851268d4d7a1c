#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

std::string EltwiseText(const std::string& parameters) {
  return "type: 'Eltwise' eltwise_param { " + parameters + " }";
}

using Inputs = std::vector<std::vector<double>>;
// The value of element i, and its slope along bottom b.
using Value = std::function<double(const Inputs&, size_t)>;
using Slope = std::function<double(const Inputs&, size_t, size_t)>;

class EltwiseLayerTest : public testing::TestWithParam<DeviceType> {
 protected:
  void Check(const std::string& parameters, int bottoms, const Value& value, const Slope& slope,
             bool zeros = true) {
    const auto [device, type] = GetParam();
    LayerTester layer(EltwiseText(parameters), device, TypeTriple::Equal(type),
                      std::vector<Shape>(bottoms, {2, 3, 5, 7}));
    Inputs x;
    for (int b = 0; b < bottoms; ++b) {
      x.push_back(layer.Bottom(b));
      // Element 0: all equal. Element 1: one 0.
      x[b][0] = 0.5;
      if (zeros && b == 1) x[b][1] = 0;
      layer.SetBottom(b, x[b]);
    }
    layer.Forward();
    layer.RandomTopDiff();
    layer.Backward();
    const std::string what = Concat(parameters, " of ", bottoms, " bottoms: ");
    std::vector<double> y(x[0].size());
    for (size_t i = 0; i < y.size(); ++i) y[i] = value(x, i);
    ExpectNear(layer.Top(), y, Tolerance(type), what + "y");
    for (int b = 0; b < bottoms; ++b) {
      std::vector<double> x_diff = layer.top().DiffAsDouble();
      for (size_t i = 0; i < y.size(); ++i) x_diff[i] *= slope(x, i, b);
      ExpectNear(layer.BottomDiff(b), x_diff, 2 * Tolerance(type), Concat(what, "dE/dx", b));
    }
  }
};

TEST_P(EltwiseLayerTest, Sum) {
  const auto sum = [](const Inputs& x, size_t i) {
    double v = 0;
    for (const auto& values : x) v += values[i];
    return v;
  };
  const auto one = [](const Inputs&, size_t, size_t) { return 1; };
  for (int bottoms : {2, 3, 4, 6}) Check("", bottoms, sum, one);
  const std::vector<double> coeffs{0.5, -2, 1, 0.25, 3};
  const auto weighted = [&](const Inputs& x, size_t i) {
    double v = 0;
    for (size_t b = 0; b < x.size(); ++b) v += coeffs[b] * x[b][i];
    return v;
  };
  const auto coeff = [&](const Inputs&, size_t, size_t b) { return coeffs[b]; };
  Check("operation: SUM coeff: 0.5 coeff: -2", 2, weighted, coeff);
  Check("coeff: 0.5 coeff: -2 coeff: 1 coeff: 0.25 coeff: 3", 5, weighted, coeff);
}

TEST_P(EltwiseLayerTest, Product) {
  const auto product = [](const Inputs& x, size_t i) {
    double v = 1;
    for (const auto& values : x) v *= values[i];
    return v;
  };
  const auto others = [](const Inputs& x, size_t i, size_t b) {
    double v = 1;
    for (size_t j = 0; j < x.size(); ++j) v *= j == b ? 1 : x[j][i];
    return v;
  };
  for (int bottoms : {2, 3, 4, 6}) Check("operation: PROD", bottoms, product, others);
  for (int bottoms : {2, 5}) {
    Check("operation: PROD stable_prod_grad: false", bottoms, product, others, false);
  }
}

TEST_P(EltwiseLayerTest, Max) {
  // The earlier one of equal ones, but bottom 1 before bottom 0.
  const auto chosen = [](const Inputs& x, size_t i) {
    size_t best = x[0][i] > x[1][i] ? 0 : 1;
    for (size_t b = 2; b < x.size(); ++b) {
      if (x[b][i] > x[best][i]) best = b;
    }
    return best;
  };
  const auto largest = [&](const Inputs& x, size_t i) { return x[chosen(x, i)][i]; };
  const auto slope = [&](const Inputs& x, size_t i, size_t b) { return chosen(x, i) == b ? 1 : 0; };
  for (int bottoms : {2, 3, 5}) Check("operation: MAX", bottoms, largest, slope);
  Check("operation: MAX coeff: 2 coeff: 3", 2, largest, slope);
}

INSTANTIATE_TEST_SUITE_P(All, EltwiseLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(EltwiseLayerGradientTest, AgreesWithDifferences) {
  for (const char* parameters : {"", "coeff: 0.5 coeff: -2 coeff: 3", "operation: PROD",
                                 "operation: PROD stable_prod_grad: false", "operation: MAX"}) {
    LayerTester layer(EltwiseText(parameters), Runtime::Get().cpu(), TypeTriple::Equal(kDouble),
                      {{2, 3, 4}, {2, 3, 4}, {2, 3, 4}});
    layer.CheckGradient();
  }
}

TEST(EltwiseLayerProductTest, UnstableGradientOfZeroIsNotANumber) {
  LayerTester layer(EltwiseText("operation: PROD stable_prod_grad: false"), Runtime::Get().cpu(),
                    TypeTriple::Equal(kFloat), {{1}, {1}});
  layer.SetBottom(0, {0});
  layer.Forward();
  layer.SetTopDiff(0, {1});
  layer.Backward();
  EXPECT_TRUE(std::isnan(layer.BottomDiff(0)[0])) << "as in BVLC Caffe";
}

TEST(EltwiseLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto make = [](const std::string& parameters, const std::vector<Shape>& shapes) {
    return LayerTester(EltwiseText(parameters), Runtime::Get().cpu(), TypeTriple::Equal(kFloat),
                       shapes);
  };
  EXPECT_NO_THROW(make("", {{2, 3}, {2, 3}}));
  EXPECT_THROW(make("", {{2, 3}}), Error);
  EXPECT_THROW(make("", {{2, 3}, {3, 2}}), Error);
  EXPECT_THROW(make("", {{2, 3}, {2, 3}, {6}}), Error);
  EXPECT_THROW(make("coeff: 1", {{2, 3}, {2, 3}}), Error);
  EXPECT_THROW(make("operation: PROD coeff: 1 coeff: 1", {{2, 3}, {2, 3}}), Error);
  EXPECT_FALSE(TraitsOf("Eltwise").in_place);
}

}  // namespace
}  // namespace caffe

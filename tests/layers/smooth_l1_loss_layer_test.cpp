#include <gtest/gtest.h>

#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

std::string LossText(const std::string& more) { return "type: 'SmoothL1Loss' " + more; }

class SmoothL1LossLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(SmoothL1LossLayerTest, ForwardAndBackward) {
  const auto [device, type] = GetParam();
  struct Case {
    Shape shape;
    int weights;
    double sigma;
    const char* more;
    double divisor;
  };
  // The last needs sums of sums.
  const Case cases[] = {
      {{5, 8}, 0, 1, "", 5},
      {{5, 2, 2, 3}, 0, 3, "smooth_l1_loss_param { sigma: 3 }", 5},
      {{5, 8}, 1, 1, "", 5},
      {{5, 8}, 2, 1.5, "smooth_l1_loss_param { sigma: 1.5 }", 5},
      {{5, 8}, 2, 1, "loss_param { normalization: PRE_FIXED pre_fixed_normalizer: 16 }", 16},
      {{500, 700}, 2, 1, "", 500},
  };
  for (const Case& c : cases) {
    LayerTester layer(LossText(c.more), device, TypeTriple::Equal(type),
                      std::vector<Shape>(2 + c.weights, c.shape));
    std::vector<double> scaled = layer.Bottom(0);
    for (double& value : scaled) value *= 2;
    layer.SetBottom(0, scaled);
    layer.Forward();
    const std::vector<double> a = layer.Bottom(0), b = layer.Bottom(1);
    const std::vector<double> ones(a.size(), 1);
    const std::vector<double> u = c.weights > 0 ? layer.Bottom(2) : ones;
    const std::vector<double> v = c.weights > 1 ? layer.Bottom(3) : ones;
    double loss = 0, size = 0, near = 0, far = 0;
    std::vector<double> gradient(a.size());
    for (size_t i = 0; i < a.size(); ++i) {
      const double d = u[i] * (a[i] - b[i]), square = c.sigma * c.sigma;
      const bool is_near = std::abs(d) < 1 / square;
      (is_near ? near : far) += 1;
      const double term = v[i] * (is_near ? square * d * d / 2 : std::abs(d) - 0.5 / square);
      loss += term;
      size += std::abs(term);
      gradient[i] = v[i] * u[i] * (is_near ? square * d : std::copysign(1, d)) * 4 / c.divisor;
    }
    EXPECT_GT(near, 0);
    EXPECT_GT(far, 0);
    EXPECT_EQ(layer.top().shape(), Shape());
    // Weights of both signs cancel terms.
    EXPECT_NEAR(layer.Top()[0], loss / c.divisor, Tolerance(type) * std::max(1., size / c.divisor));
    layer.SetTopDiff(0, {4});
    layer.Backward();
    ExpectNear(layer.BottomDiff(0), gradient, 4 * Tolerance(type), "dE/da");
    for (double& value : gradient) value = -value;
    ExpectNear(layer.BottomDiff(1), gradient, 4 * Tolerance(type), "dE/db");
  }
}

TEST_P(SmoothL1LossLayerTest, ByHand) {
  const auto [device, type] = GetParam();
  LayerTester layer(LossText("smooth_l1_loss_param { sigma: 2 }"), device, TypeTriple::Equal(type),
                    {{2, 2}, {2, 2}, {2, 2}, {2, 2}});
  layer.SetBottom(0, {0.125, 3, -2, 5});
  layer.SetBottom(1, {0, 1, 0, 1});
  layer.SetBottom(2, {1, 0.5, 1, 0});
  layer.SetBottom(3, {1, 1, 2, 7});
  layer.Forward();
  // (2 / 8)^2 / 2, 1 - 1/8, 2 (2 - 1/8), 0
  ExpectNear(layer.Top(), {(0.03125 + 0.875 + 3.75) / 2}, Tolerance(type), "loss");
  layer.SetTopDiff(0, {2});
  layer.Backward();
  ExpectNear(layer.BottomDiff(0), {0.5, 0.5, -2, 0}, Tolerance(type), "dE/da");
}

TEST_P(SmoothL1LossLayerTest, NoItems) {
  const auto [device, type] = GetParam();
  LayerTester layer(LossText(""), device, TypeTriple::Equal(type), {{0, 3}, {0, 3}});
  layer.Forward();
  EXPECT_EQ(layer.Top(), std::vector<double>({0}));
  layer.SetTopDiff(0, {1});
  layer.Backward();
  EXPECT_TRUE(layer.BottomDiff(0).empty());
}

INSTANTIATE_TEST_SUITE_P(All, SmoothL1LossLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(SmoothL1LossLayerGradientTest, AgreesWithDifferences) {
  for (const int bottoms : {2, 3, 4}) {
    LayerTester layer(LossText("smooth_l1_loss_param { sigma: 1.25 }"), Runtime::Get().cpu(),
                      TypeTriple::Equal(kDouble), std::vector<Shape>(bottoms, {3, 2, 4}));
    layer.CheckGradient();
  }
}

TEST(SmoothL1LossLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto make = [](const std::vector<Shape>& shapes, const std::string& more = "") {
    LayerTester(LossText(more), Runtime::Get().cpu(), TypeTriple::Equal(kFloat), shapes);
  };
  EXPECT_NO_THROW(make({{2, 6}, {2, 6}, {2, 6}, {2, 3, 2}}));
  EXPECT_THROW(make({{2, 6}}), Error);
  EXPECT_THROW(make({{2, 6}, {2, 5}}), Error);
  EXPECT_THROW(make({{2, 6}, {3, 4}}), Error);
  EXPECT_THROW(make({{2, 6}, {2, 6}, {2}}), Error);
  EXPECT_THROW(make({{2, 6}, {2, 6}, {2, 6}, {2, 5}}), Error);
  EXPECT_THROW(make({{2, 6}, {2, 6}}, "smooth_l1_loss_param { sigma: 0 }"), Error);
}

}  // namespace
}  // namespace caffe

#include <gtest/gtest.h>

#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

std::vector<double> Labels(int64_t items, int64_t classes) {
  std::vector<double> labels(items);
  for (int64_t i = 0; i < items; ++i) labels[i] = static_cast<double>(i * 3 % classes);
  return labels;
}

// Values in (0, 1).
void MakePositive(LayerTester* layer) {
  std::vector<double> p = layer->Bottom(0);
  for (double& value : p) value = std::abs(value);
  layer->SetBottom(0, p);
}

class MultinomialLogisticLossLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(MultinomialLogisticLossLayerTest, ForwardAndBackward) {
  const auto [device, type] = GetParam();
  struct Case {
    Shape shape, labels;
    const char* more;
    double divisor;
  };
  const Case cases[] = {
      {{8, 5}, {8}, "", 8},
      {{8, 5, 1, 1}, {8, 1, 1, 1}, "", 8},
      {{600, 7}, {600}, "", 600},
      {{8, 5}, {8}, "loss_param { normalization: PRE_FIXED pre_fixed_normalizer: 4 }", 4},
  };
  for (const Case& c : cases) {
    LayerTester layer(std::string("type: 'MultinomialLogisticLoss' ") + c.more, device,
                      TypeTriple::Equal(type), {c.shape, c.labels});
    const int64_t items = c.shape[0], classes = layer.bottom().count() / items;
    const std::vector<double> labels = Labels(items, classes);
    layer.SetBottom(1, labels);
    MakePositive(&layer);
    layer.Forward();
    const std::vector<double> p = layer.Bottom(0);
    double loss = 0;
    std::vector<double> gradient(p.size());
    for (int64_t i = 0; i < items; ++i) {
      const size_t at = i * classes + static_cast<int64_t>(labels[i]);
      loss -= std::log(p[at]);
      gradient[at] = -2 / p[at] / c.divisor;
    }
    ExpectNear(layer.Top(), {loss / c.divisor}, Tolerance(type), c.more);
    layer.SetTopDiff(0, {2});
    layer.Backward();
    ExpectNear(layer.BottomDiff(0), gradient, Tolerance(type), c.more);
  }
}

TEST_P(MultinomialLogisticLossLayerTest, ZeroProbability) {
  const auto [device, type] = GetParam();
  LayerTester layer("type: 'MultinomialLogisticLoss'", device, TypeTriple::Equal(type),
                    {{2, 2}, {2}});
  layer.SetBottom(0, {0, 1, 1, 0});
  layer.SetBottom(1, {0, 0});
  layer.Forward();
  const double low = type == kHalf ? std::ldexp(1, -14) : 1e-20;
  ExpectNear(layer.Top(), {-std::log(low) / 2}, Tolerance(type), "loss");
  layer.SetTopDiff(0, {1});
  layer.Backward();
  const std::vector<double> gradient = layer.BottomDiff(0);
  EXPECT_NEAR(gradient[0] * low * 2, -1, Tolerance(type));
  ExpectNear({gradient.begin() + 1, gradient.end()}, {0, -0.5, 0}, Tolerance(type), "gradient");
}

TEST_P(MultinomialLogisticLossLayerTest, NoItems) {
  const auto [device, type] = GetParam();
  LayerTester layer("type: 'MultinomialLogisticLoss'", device, TypeTriple::Equal(type),
                    {{0, 3}, {0}});
  layer.Forward();
  EXPECT_EQ(layer.Top(), std::vector<double>({0}));
  layer.SetTopDiff(0, {1});
  layer.Backward();
  EXPECT_TRUE(layer.BottomDiff(0).empty());
}

INSTANTIATE_TEST_SUITE_P(All, MultinomialLogisticLossLayerTest,
                         testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(MultinomialLogisticLossLayerGradientTest, AgreesWithDifferences) {
  LayerTester layer("type: 'MultinomialLogisticLoss'", Runtime::Get().cpu(),
                    TypeTriple::Equal(kDouble), {{4, 5}, {4}});
  layer.SetBottom(1, Labels(4, 5));
  MakePositive(&layer);
  layer.CheckGradient(1e-6, 1e-5);
}

TEST(MultinomialLogisticLossLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto make = [](const Shape& labels) {
    LayerTester("type: 'MultinomialLogisticLoss'", Runtime::Get().cpu(), TypeTriple::Equal(kFloat),
                {{4, 3}, labels});
  };
  EXPECT_NO_THROW(make({4, 1, 1, 1}));
  EXPECT_THROW(make({4, 3}), Error);
  EXPECT_THROW(make({3}), Error);
}

}  // namespace
}  // namespace caffe

#include <gtest/gtest.h>

#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

constexpr char kBoth[] =
    "type: 'MOELoss' moe_param { select_experts: 2 load_balance_loss_weight: 0.5"
    " z_loss_weight: 0.25 }";

class MOELossLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(MOELossLayerTest, FormulasByHand) {
  const auto [device, type] = GetParam();
  const int64_t items = 6, experts = 3;
  LayerTester layer(kBoth, device, TypeTriple::Equal(type),
                    {{items, experts}, {items, experts}, {items, experts}});
  std::vector<double> p = layer.Bottom(0), usage{1, 0.75, 0.25}, observed;
  for (double& value : p) value = std::abs(value);
  for (int64_t n = 0; n < items; ++n) observed.insert(observed.end(), usage.begin(), usage.end());
  layer.SetBottom(0, p);
  layer.SetBottom(1, observed);
  const std::vector<double> z = layer.Bottom(2);
  double loss = 0;
  std::vector<double> p_diff, z_diff;
  for (int64_t n = 0; n < items; ++n) {
    double sum = 0;
    for (int64_t e = 0; e < experts; ++e) sum += std::exp(z[n * experts + e]);
    loss += 0.25 * std::log(sum) * std::log(sum) / items;
    for (int64_t e = 0; e < experts; ++e) {
      loss += 0.5 * experts / 2 * usage[e] * p[n * experts + e] / items;
      p_diff.push_back(0.5 * experts / 2 * usage[e] / items);
      z_diff.push_back(0.5 * std::log(sum) * std::exp(z[n * experts + e]) / sum / items);
    }
  }
  layer.Forward();
  ExpectNear(layer.Top(), {loss}, 4 * Tolerance(type), "loss");
  layer.SetTopDiff(0, {1});
  layer.Backward();
  ExpectNear(layer.BottomDiff(0), p_diff, Tolerance(type), "dE/dp");
  ExpectNear(layer.BottomDiff(2), z_diff, Tolerance(type), "dE/dz");
}

INSTANTIATE_TEST_SUITE_P(All, MOELossLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(MOELossGradientTest, AgreesWithDifferences) {
  LayerTester both(kBoth, Runtime::Get().cpu(), TypeTriple::Equal(kDouble),
                   {{4, 3}, {4, 3}, {4, 3}});
  both.CheckGradient();
  LayerTester balance("type: 'MOELoss' moe_param { load_balance_loss_weight: 2 }",
                      Runtime::Get().cpu(), TypeTriple::Equal(kDouble), {{4, 3}, {4, 3}});
  balance.CheckGradient();
}

TEST(MOELossErrorTest, NeedsTheInputsOfTheSoftmax) {
  EXPECT_THROW(LayerTester("type: 'MOELoss' moe_param { z_loss_weight: 1 }", Runtime::Get().cpu(),
                           TypeTriple::Equal(kFloat), {{4, 3}, {4, 3}}),
               Error);
}

}  // namespace
}  // namespace caffe

#include <gtest/gtest.h>

#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

std::string LossText(const std::string& loss_param) {
  return "type: 'SigmoidCrossEntropyLoss' loss_param { " + loss_param + " }";
}

// Targets from 0 to 1, and every ninth the ignored one.
std::vector<double> Targets(int64_t count, double ignored) {
  std::vector<double> targets(count);
  for (int64_t i = 0; i < count; ++i) {
    targets[i] = i % 9 == 4 ? ignored : static_cast<double>(i * 3 % 5) / 4;
  }
  return targets;
}

class SigmoidCrossEntropyLossLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(SigmoidCrossEntropyLossLayerTest, ForwardAndBackward) {
  const auto [device, type] = GetParam();
  struct Case {
    Shape x, targets;
    const char* loss_param;
    bool ignoring;
    double divisor;  // 0: the number of targets that count
  };
  const Case cases[] = {
      {{5, 3, 4}, {5, 12}, "", false, 5},
      {{5, 3, 4}, {5, 3, 4}, "ignore_label: -7", true, 5},
      {{5, 12}, {5, 12}, "ignore_label: -7 normalization: VALID", true, 0},
      {{5, 12}, {5, 12}, "normalization: FULL", false, 60},
      {{5, 12}, {5, 12}, "normalization: NONE", false, 1},
      {{5, 12}, {5, 12}, "normalization: BATCH_SIZE normalize: true", false, 5},
      {{5, 12}, {5, 12}, "normalize: true", false, 60},
      {{5, 12}, {5, 12}, "normalize: false", false, 5},
      {{5, 12}, {5, 12}, "normalization: PRE_FIXED pre_fixed_normalizer: 2.5", false, 2.5},
      {{70, 600}, {70, 600}, "ignore_label: -7 normalization: VALID", true, 0},
  };
  for (const Case& c : cases) {
    LayerTester layer(LossText(c.loss_param), device, TypeTriple::Equal(type), {c.x, c.targets});
    const double ignored = c.ignoring ? -7.5 : 1;  // truncated to -7
    layer.SetBottom(1, Targets(layer.bottom().count(), ignored));
    layer.Forward();
    const std::vector<double> x = layer.Bottom(0), t = layer.Bottom(1);
    double loss = 0, valid = 0;
    std::vector<double> gradient(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      if (t[i] == -7.5) continue;
      const double p = 1 / (1 + std::exp(-x[i]));
      loss -= t[i] * std::log(p) + (1 - t[i]) * std::log(1 - p);
      gradient[i] = p - t[i];
      ++valid;
    }
    const double divisor = c.divisor > 0 ? c.divisor : valid;
    EXPECT_EQ(layer.top().shape(), Shape());
    ExpectNear(layer.Top(), {loss / divisor}, Tolerance(type), c.loss_param);
    layer.SetTopDiff(0, {6});
    layer.Backward();
    for (double& value : gradient) value *= 6 / divisor;
    ExpectNear(layer.BottomDiff(0), gradient, 4 * Tolerance(type), c.loss_param);
  }
}

TEST_P(SigmoidCrossEntropyLossLayerTest, ExtremeValues) {
  const auto [device, type] = GetParam();
  LayerTester layer(LossText("normalization: NONE"), device, TypeTriple::Equal(type),
                    {{4, 1}, {4, 1}});
  layer.SetBottom(0, {1000, 1000, -1000, -1000});
  layer.SetBottom(1, {1, 0, 0, 1});
  layer.Forward();
  ExpectNear(layer.Top(), {2000}, Tolerance(type), "loss");
  layer.SetTopDiff(0, {1});
  layer.Backward();
  ExpectNear(layer.BottomDiff(0), {0, 1, 0, -1}, Tolerance(type), "gradient");
}

TEST_P(SigmoidCrossEntropyLossLayerTest, NothingCounts) {
  const auto [device, type] = GetParam();
  for (const Shape& shape : {Shape{2, 3}, Shape{0, 3}}) {
    LayerTester layer(LossText("ignore_label: 1 normalization: VALID"), device,
                      TypeTriple::Equal(type), {shape, shape});
    layer.SetBottom(1, std::vector<double>(layer.bottom().count(), 1));
    layer.Forward();
    EXPECT_EQ(layer.Top(), std::vector<double>({0}));
    layer.SetTopDiff(0, {1});
    layer.Backward();
    EXPECT_EQ(layer.BottomDiff(0), std::vector<double>(layer.bottom().count(), 0));
  }
}

INSTANTIATE_TEST_SUITE_P(All, SigmoidCrossEntropyLossLayerTest,
                         testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(SigmoidCrossEntropyLossLayerGradientTest, AgreesWithDifferences) {
  for (const char* loss_param : {"", "ignore_label: -7 normalization: VALID"}) {
    LayerTester layer(LossText(loss_param), Runtime::Get().cpu(), TypeTriple::Equal(kDouble),
                      {{4, 5}, {4, 5}});
    layer.SetBottom(1, Targets(20, -7));
    layer.CheckGradient();
  }
}

TEST(SigmoidCrossEntropyLossLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto make = [](const Shape& targets, const std::string& loss_param = "") {
    LayerTester(LossText(loss_param), Runtime::Get().cpu(), TypeTriple::Equal(kFloat),
                {{2, 6}, targets});
  };
  EXPECT_NO_THROW(make({2, 3, 2}));
  EXPECT_THROW(make({2, 5}), Error);
  EXPECT_THROW(make({2}), Error);
  EXPECT_THROW(make({3, 4}), Error);
  EXPECT_THROW(make({2, 6}, "normalization: PRE_FIXED pre_fixed_normalizer: 0"), Error);
}

}  // namespace
}  // namespace caffe

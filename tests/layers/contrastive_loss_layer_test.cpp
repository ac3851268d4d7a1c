#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

std::string LossText(const std::string& more) {
  return "type: 'ContrastiveLoss' contrastive_loss_param { " + more + " }";
}

// Some pairs are similar.
std::vector<double> Similar(int64_t pairs) {
  std::vector<double> y(pairs);
  for (int64_t i = 0; i < pairs; ++i) y[i] = i % 3 == 0 ? 1 : i % 3 == 1 ? 0 : i % 2;
  return y;
}

class ContrastiveLossLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(ContrastiveLossLayerTest, ForwardAndBackward) {
  const auto [device, type] = GetParam();
  struct Case {
    Shape shape;
    double margin;
    bool legacy;
    const char* more = "";
    double divisor = 0;  // 0: N
  };
  // Some pairs are beyond the margin, some are not.
  const Case cases[] = {
      {{12, 2}, 1, false},
      {{12, 2, 1, 1}, 1, true},
      {{7, 5}, 1.75, false},
      {{7, 5}, 3.25, true},
      {{3, 700}, 24, false},
      {{600, 3}, 1.5, false},
      {{9, 2, 3}, 5, true},
      {{12, 2}, 1.25, false, "loss_param { normalization: PRE_FIXED pre_fixed_normalizer: 3 }", 3},
  };
  for (const Case& c : cases) {
    LayerTester layer(
        LossText(Concat("margin: ", c.margin, c.legacy ? " legacy_version: true" : "")) + c.more,
        device, TypeTriple::Equal(type), {c.shape, c.shape, {c.shape[0], 1}});
    const int64_t pairs = c.shape[0], length = layer.bottom().count() / pairs;
    layer.SetBottom(2, Similar(pairs));
    layer.Forward();
    const std::vector<double> a = layer.Bottom(0), b = layer.Bottom(1), y = layer.Bottom(2);
    const double divisor = c.divisor > 0 ? c.divisor : static_cast<double>(pairs);
    double loss = 0, inside = 0, beyond = 0;
    std::vector<double> gradient(a.size());
    for (int64_t i = 0; i < pairs; ++i) {
      double square = 0;
      for (int64_t j = i * length; j < (i + 1) * length; ++j) square += std::pow(a[j] - b[j], 2);
      const double distance = std::sqrt(square);
      double slope = 1;
      if (y[i] != 0) {
        loss += square;
      } else {
        const double gap = c.margin - (c.legacy ? square : distance);
        (gap > 0 ? inside : beyond) += 1;
        loss += gap <= 0 ? 0 : c.legacy ? gap : gap * gap;
        slope = gap <= 0 ? 0 : c.legacy ? -1 : -gap / (distance + 1e-4);
      }
      for (int64_t j = i * length; j < (i + 1) * length; ++j) {
        gradient[j] = slope * (a[j] - b[j]) * 4 / divisor;
      }
    }
    EXPECT_GT(inside, 0) << "margin " << c.margin;
    EXPECT_EQ(layer.top().shape(), Shape());
    ExpectNear(layer.Top(), {loss / 2 / divisor}, Tolerance(type), "loss");
    layer.SetTopDiff(0, {4});
    layer.Backward();
    ExpectNear(layer.BottomDiff(0), gradient, 4 * Tolerance(type), "dE/da");
    for (double& value : gradient) value = -value;
    ExpectNear(layer.BottomDiff(1), gradient, 4 * Tolerance(type), "dE/db");
  }
}

// Equal points have no direction, pairs beyond the margin no force. Any integer but 0 is similar.
TEST_P(ContrastiveLossLayerTest, ByHand) {
  const auto [device, type] = GetParam();
  LayerTester layer(LossText("margin: 2"), device, TypeTriple::Equal(type), {{4, 2}, {4, 2}, {4}});
  layer.SetBottom(0, {1, 1, 3, 0, 0, 1, 0, 0});
  layer.SetBottom(1, {1, 1, 0, 0, 0, 0, 3, 4});
  layer.SetBottom(2, {0, 0, 0, -2});
  layer.Forward();
  // 2^2, 0, (2 - 1)^2, and 25 of the similar pair.
  ExpectNear(layer.Top(), {30. / 8}, Tolerance(type), "loss");
  layer.SetTopDiff(0, {4});
  layer.Backward();
  ExpectNear(layer.BottomDiff(0), {0, 0, 0, 0, 0, -1 / 1.0001, -3, -4}, Tolerance(type), "dE/da");
}

TEST_P(ContrastiveLossLayerTest, ALabelThatIsNotANumberIsAnError) {
  const auto [device, type] = GetParam();
  LayerTester layer(LossText(""), device, TypeTriple::Equal(type), {{3, 2}, {3, 2}, {3}});
  layer.SetBottom(2, {0, 1, std::numeric_limits<double>::quiet_NaN()});
  std::string message;
  try {
    layer.Forward();
    EXPECT_FALSE(device->host_accessible());
    layer.SetTopDiff(0, {1});
    layer.Backward();
    EXPECT_EQ(layer.BottomDiff(0)[4], 0);
    layer.layer().CheckData();
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_TRUE(Holds(message, "tested (ContrastiveLoss): label nan of pair 2"));
}

TEST_P(ContrastiveLossLayerTest, NoPairs) {
  const auto [device, type] = GetParam();
  LayerTester layer(LossText(""), device, TypeTriple::Equal(type), {{0, 2}, {0, 2}, {0}});
  layer.Forward();
  EXPECT_EQ(layer.Top(), std::vector<double>({0}));
  layer.SetTopDiff(0, {1});
  layer.Backward();
  EXPECT_TRUE(layer.BottomDiff(0).empty());
}

INSTANTIATE_TEST_SUITE_P(All, ContrastiveLossLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(ContrastiveLossLayerGradientTest, AgreesWithDifferences) {
  for (const char* more : {"margin: 1.5", "margin: 2 legacy_version: true"}) {
    LayerTester layer(LossText(more), Runtime::Get().cpu(), TypeTriple::Equal(kDouble),
                      {{6, 3}, {6, 3}, {6}});
    layer.SetBottom(2, Similar(6));
    // The gradient has d + 10^-4 where the loss has d.
    layer.CheckGradient(1e-5, 1e-3);
  }
}

TEST(ContrastiveLossLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto make = [](const Shape& b, const Shape& y) {
    LayerTester(LossText(""), Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{2, 6}, b, y});
  };
  EXPECT_NO_THROW(make({2, 6}, {2, 1, 1, 1}));
  EXPECT_THROW(make({2, 5}, {2}), Error);
  EXPECT_THROW(make({3, 4}, {2}), Error);
  EXPECT_THROW(make({2, 6}, {3}), Error);
  EXPECT_THROW(make({2, 6}, {2, 2}), Error);
}

TEST(ContrastiveLossLayerShapeTest, TheBatchMayChange) {
  LayerTester layer(LossText("margin: 2"), Runtime::Get().cpu(), TypeTriple::Equal(kFloat),
                    {{2, 3}, {2, 3}, {2}});
  layer.Forward();
  for (int i = 0; i < 2; ++i) {
    layer.bottom(i).Reshape({5, 3});
    layer.SetBottom(i, TestNumbers(15, 10 + i));
  }
  layer.bottom(2).Reshape({5});
  layer.SetBottom(2, {1, 1, 1, 1, 1});
  layer.Forward();
  const std::vector<double> a = layer.Bottom(0), b = layer.Bottom(1);
  double loss = 0;
  for (size_t i = 0; i < a.size(); ++i) loss += std::pow(a[i] - b[i], 2) / 10;
  ExpectNear(layer.Top(), {loss}, 1e-5, "loss of five pairs");
}

}  // namespace
}  // namespace caffe

#include <gtest/gtest.h>

#include <algorithm>

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

class HingeLossLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(HingeLossLayerTest, ForwardAndBackward) {
  const auto [device, type] = GetParam();
  struct Case {
    Shape shape, labels;
    const char* more;
    bool squared;
    double divisor;
  };
  const Case cases[] = {
      {{8, 5}, {8}, "", false, 8},
      {{8, 5}, {8, 1, 1, 1}, "hinge_loss_param { norm: L1 }", false, 8},
      {{8, 5}, {8}, "hinge_loss_param { norm: L2 }", true, 8},
      {{600, 7}, {600}, "hinge_loss_param { norm: L2 }", true, 600},
      {{3, 2, 3}, {3}, "", false, 3},
      {{8, 5}, {8}, "loss_param { normalization: PRE_FIXED pre_fixed_normalizer: 2 }", false, 2},
  };
  for (const Case& c : cases) {
    LayerTester layer(std::string("type: 'HingeLoss' ") + c.more, device, TypeTriple::Equal(type),
                      {c.shape, c.labels});
    const int64_t items = c.shape[0], classes = layer.bottom().count() / items;
    const std::vector<double> labels = Labels(items, classes);
    layer.SetBottom(1, labels);
    // Some beyond the margin.
    std::vector<double> x = layer.Bottom(0);
    for (double& value : x) value *= 4;
    layer.SetBottom(0, x);
    layer.Forward();
    double loss = 0;
    std::vector<double> gradient(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const double sign = labels[i / classes] == static_cast<double>(i % classes) ? -1 : 1;
      const double margin = std::max(0., 1 + sign * x[i]);
      loss += c.squared ? margin * margin : margin;
      gradient[i] = margin > 0 ? sign * (c.squared ? 2 * margin : 1) * 8 / c.divisor : 0;
    }
    ExpectNear(layer.Top(), {loss / c.divisor}, Tolerance(type), c.more);
    layer.SetTopDiff(0, {8});
    layer.Backward();
    ExpectNear(layer.BottomDiff(0), gradient, Tolerance(type), c.more);
  }
}

TEST_P(HingeLossLayerTest, NoItems) {
  const auto [device, type] = GetParam();
  LayerTester layer("type: 'HingeLoss'", device, TypeTriple::Equal(type), {{0, 3}, {0}});
  layer.Forward();
  EXPECT_EQ(layer.Top(), std::vector<double>({0}));
  layer.SetTopDiff(0, {1});
  layer.Backward();
  EXPECT_TRUE(layer.BottomDiff(0).empty());
}

INSTANTIATE_TEST_SUITE_P(All, HingeLossLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(HingeLossLayerGradientTest, AgreesWithDifferences) {
  for (const char* norm : {"L1", "L2"}) {
    LayerTester layer(Concat("type: 'HingeLoss' hinge_loss_param { norm: ", norm, " }"),
                      Runtime::Get().cpu(), TypeTriple::Equal(kDouble), {{4, 5}, {4}});
    layer.SetBottom(1, Labels(4, 5));
    layer.CheckGradient();  // every x is in (-1, 1), so no margin is 0
  }
}

TEST(HingeLossLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto make = [](const Shape& labels) {
    LayerTester("type: 'HingeLoss'", Runtime::Get().cpu(), TypeTriple::Equal(kFloat),
                {{4, 3}, labels});
  };
  EXPECT_NO_THROW(make({4, 1}));
  EXPECT_THROW(make({4, 3}), Error);
  EXPECT_THROW(make({3}), Error);
}

}  // namespace
}  // namespace caffe

#include <gtest/gtest.h>

#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

std::string LossText(const std::string& loss_param) {
  return "type: 'SoftmaxWithLoss' loss_param { " + loss_param + " }";
}

// Labels 0, 3, 1, 4, 2, 0, … of `channels` classes.
std::vector<double> Labels(int64_t count, int64_t channels) {
  std::vector<double> labels(count);
  for (int64_t i = 0; i < count; ++i) labels[i] = static_cast<double>(i * 3 % channels);
  return labels;
}

// The formula, for scores [outer, channels, inner]; ignored < 0: no label is ignored.
struct Reference {
  Reference(const std::vector<double>& x, const std::vector<double>& labels, int64_t outer,
            int64_t channels, int64_t inner, double ignored)
      : p(x.size()), gradient(x.size()) {
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t s = 0; s < inner; ++s) {
        const int64_t first = o * channels * inner + s;
        double sum = 0;
        for (int64_t c = 0; c < channels; ++c) sum += std::exp(x[first + c * inner]);
        for (int64_t c = 0; c < channels; ++c) {
          p[first + c * inner] = std::exp(x[first + c * inner]) / sum;
        }
        const double label = labels[o * inner + s];
        if (label == ignored) continue;
        ++valid;
        loss -= std::log(p[first + static_cast<int64_t>(label) * inner]);
        for (int64_t c = 0; c < channels; ++c) {
          gradient[first + c * inner] = p[first + c * inner] - (c == label);
        }
      }
    }
  }
  std::vector<double> p, gradient;
  double loss = 0, valid = 0;
};

class SoftmaxWithLossLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(SoftmaxWithLossLayerTest, ForwardAndBackward) {
  const auto [device, type] = GetParam();
  struct Case {
    Shape scores, labels;
    const char* loss_param;
    double ignored;
    double divisor;  // 0: the number of labels that count
  };
  const Case cases[] = {
      {{8, 5}, {8}, "", -1, 0},
      {{8, 5}, {8, 1, 1, 1}, "ignore_label: 3", 3, 0},
      {{600, 5}, {600}, "ignore_label: 1 normalization: FULL", 1, 600},
      {{2, 5, 3, 4}, {2, 3, 4}, "ignore_label: 0", 0, 0},
      {{2, 5, 3, 4}, {2, 1, 3, 4}, "normalization: BATCH_SIZE", -1, 2},
      {{2, 5, 3, 4}, {2, 3, 4}, "normalization: FULL", -1, 24},
      {{2, 5, 3, 4}, {2, 3, 4}, "normalization: NONE", -1, 1},
      {{2, 5, 3, 4}, {2, 3, 4}, "normalize: true ignore_label: 2", 2, 0},
      {{2, 5, 3, 4}, {2, 3, 4}, "normalize: false", -1, 2},
      {{2, 5, 3, 4}, {2, 3, 4}, "normalize: false normalization: FULL", -1, 24},
      {{8, 5}, {8}, "normalization: PRE_FIXED pre_fixed_normalizer: 12.5", -1, 12.5},
      {{8, 5}, {8}, "normalization: PRE_FIXED pre_fixed_normalizer: 0.5", -1, 1},
      {{3, 600}, {3}, "", -1, 0},
      {{5, 65}, {5}, "ignore_label: 3", 3, 0},
  };
  for (const Case& c : cases) {
    LayerTester layer(LossText(c.loss_param), device, TypeTriple::Equal(type), {c.scores, c.labels},
                      2);
    const int64_t inner = ShapeCount(c.scores, 2);
    const int64_t channels = c.scores[1];
    const std::vector<double> labels = Labels(c.scores[0] * inner, channels);
    layer.SetBottom(1, labels);
    layer.Forward();
    const Reference expected(layer.Bottom(0), labels, c.scores[0], channels, inner, c.ignored);
    const double divisor = c.divisor > 0 ? c.divisor : expected.valid;
    ExpectNear(layer.Top(0), {expected.loss / divisor}, Tolerance(type), c.loss_param);
    ExpectNear(layer.Top(1), expected.p, Tolerance(type), "p");
    layer.SetTopDiff(0, {8});
    layer.Backward();
    std::vector<double> gradient = expected.gradient;
    for (double& value : gradient) value *= 8 / divisor;
    ExpectNear(layer.BottomDiff(0), gradient, 4 * Tolerance(type), c.loss_param);
  }
}

TEST_P(SoftmaxWithLossLayerTest, NothingCounts) {
  const auto [device, type] = GetParam();
  LayerTester layer(LossText("ignore_label: 255"), device, TypeTriple::Equal(type), {{3, 4}, {3}});
  layer.SetBottom(1, {255, 255, 255});
  layer.Forward();
  EXPECT_EQ(layer.Top(), std::vector<double>({0}));
  layer.SetTopDiff(0, {1});
  layer.Backward();
  EXPECT_EQ(layer.BottomDiff(0), std::vector<double>(12, 0));
}

TEST_P(SoftmaxWithLossLayerTest, ExtremeScores) {
  const auto [device, type] = GetParam();
  LayerTester layer(LossText(""), device, TypeTriple::Equal(type), {{2, 3}, {2}});
  layer.SetBottom(0, {10000, -10000, 0, 10000, 0, 0});
  layer.SetBottom(1, {1, 0});
  layer.Forward();
  ExpectNear(layer.Top(), {87.3365447505531 / 2}, Tolerance(type), "the largest loss and none");
}

// SegNet: terms and gradients are weighted, the number of labels is not.
TEST_P(SoftmaxWithLossLayerTest, ClassWeights) {
  const auto [device, type] = GetParam();
  const double weights[] = {0.5, 2, 0, 1.25, 1};
  struct Case {
    Shape scores;
    const char* more;
    double ignored;
    double divisor;  // 0: the number of labels that count
  };
  for (const Case& c : {Case{{9, 5}, "", -1, 0}, Case{{9, 5}, "ignore_label: 1", 1, 0},
                        Case{{2, 5, 3, 4}, "normalize: false", -1, 2},
                        Case{{2, 5, 3, 4}, "ignore_label: 0", 0, 0}}) {
    std::string text = Concat("weight_by_label_freqs: true ", c.more);
    for (double weight : weights) text += Concat(" class_weighting: ", weight);
    const int64_t inner = ShapeCount(c.scores, 2);
    LayerTester layer(LossText(text), device, TypeTriple::Equal(type),
                      {c.scores, {c.scores[0], inner}});
    const int64_t channels = c.scores[1];
    const std::vector<double> labels = Labels(c.scores[0] * inner, channels);
    layer.SetBottom(1, labels);
    layer.Forward();
    const Reference expected(layer.Bottom(0), labels, c.scores[0], channels, inner, c.ignored);
    const double divisor = c.divisor > 0 ? c.divisor : expected.valid;
    double loss = 0;
    std::vector<double> gradient = expected.gradient;
    for (int64_t o = 0; o < c.scores[0]; ++o) {
      for (int64_t s = 0; s < inner; ++s) {
        const int64_t label = static_cast<int64_t>(labels[o * inner + s]);
        const int64_t first = o * 5 * inner + s;
        if (static_cast<double>(label) != c.ignored) {
          loss -= weights[label] * std::log(expected.p[first + label * inner]);
        }
        for (int64_t k = 0; k < 5; ++k) gradient[first + k * inner] *= 8 * weights[label] / divisor;
      }
    }
    ExpectNear(layer.Top(0), {loss / divisor}, Tolerance(type), c.more);
    layer.SetTopDiff(0, {8});
    layer.Backward();
    ExpectNear(layer.BottomDiff(0), gradient, 4 * Tolerance(type), c.more);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SoftmaxWithLossLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(SoftmaxWithLossLayerGradientTest, AgreesWithDifferences) {
  for (const char* loss_param :
       {"", "ignore_label: 3", "normalization: NONE",
        "weight_by_label_freqs: true class_weighting: [0.5, 2, 0, 1.25, 1]"}) {
    for (const Shape& shape : {Shape{4, 5}, Shape{2, 5, 2, 3}}) {
      LayerTester layer(LossText(loss_param), Runtime::Get().cpu(), TypeTriple::Equal(kDouble),
                        {shape, {shape[0], ShapeCount(shape, 2)}});
      layer.SetBottom(1, Labels(layer.bottom(1).count(), 5));
      layer.CheckGradient();
    }
  }
}

TEST(SoftmaxWithLossLayerShapeTest, RefusesWrongSettings) {
  const auto make = [](const char* loss_param) {
    LayerTester(LossText(loss_param), Runtime::Get().cpu(), TypeTriple::Equal(kFloat),
                {{4, 3}, {4}});
  };
  EXPECT_NO_THROW(make("weight_by_label_freqs: true class_weighting: [1, 2, 0]"));
  EXPECT_NO_THROW(make("class_weighting: [1, 2]"));  // not used
  EXPECT_THROW(make("weight_by_label_freqs: true"), Error);
  EXPECT_THROW(make("weight_by_label_freqs: true class_weighting: [1, 2]"), Error);
  EXPECT_THROW(make("weight_by_label_freqs: true class_weighting: [1, 2, -1]"), Error);
  EXPECT_THROW(make("weight_by_label_freqs: true class_weighting: [1, nan, 1]"), Error);
  EXPECT_THROW(make("normalization: PRE_FIXED pre_fixed_normalizer: -1"), Error);
}

TEST(SoftmaxWithLossLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto make = [](const Shape& labels) {
    LayerTester(LossText(""), Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{2, 3, 4}, labels});
  };
  EXPECT_THROW(make({2}), Error);
  EXPECT_THROW(make({4, 2}), Error);
  EXPECT_NO_THROW(make({2, 4}));
}

}  // namespace
}  // namespace caffe

// Rounding by reconstruction: codes that change a layer's sums least.
#include <gtest/gtest.h>

#include <cmath>

#include "caffe/calibration/code_choice.hpp"
#include "caffe/calibration/quantize_net.hpp"
#include "caffe/calibration/round_weights.hpp"
#include "caffe/device/runtime.hpp"
#include "net/net_support.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

Device* Cpu() { return Runtime::Get().cpu(); }

// The mean of x x' over rows x whose elements depend on each other.
std::vector<double> Gram(int64_t size, uint64_t seed) {
  const int rows = 40;
  const std::vector<double> noise = TestNumbers(rows * (size + 1), seed);
  std::vector<double> gram(size * size, 0);
  for (int r = 0; r < rows; ++r) {
    std::vector<double> x(size);
    for (int64_t i = 0; i < size; ++i) {
      x[i] = noise[r * (size + 1) + i] + 2 * noise[r * (size + 1) + size];
    }
    for (int64_t i = 0; i < size; ++i) {
      for (int64_t j = 0; j < size; ++j) gram[i * size + j] += x[i] * x[j] / rows;
    }
  }
  return gram;
}

double SquaredChange(const std::vector<double>& gram, const std::vector<double>& w,
                     const std::vector<double>& q) {
  double error = 0;
  for (size_t i = 0; i < w.size(); ++i) {
    for (size_t j = 0; j < w.size(); ++j) {
      error += (q[i] - w[i]) * gram[i * w.size() + j] * (q[j] - w[j]);
    }
  }
  return error;
}

TEST(CodeChoiceTest, IsNearTheBestOfAllChoices) {
  constexpr int kSize = 10, kCases = 60;
  double sum_nearest = 0, sum_chosen = 0, sum_best = 0;
  for (int c = 0; c < kCases; ++c) {
    const std::vector<double> gram = Gram(kSize, 10 + c);
    std::vector<double> w = TestNumbers(kSize, 500 + c);
    for (double& value : w) value *= 40;
    w[3] = 127;  // decides the scale: no other code
    double nearest = 0, chosen = 0;
    const std::vector<double> q = CodeChoice(gram, kSize).Choose(w, 127, &nearest, &chosen);
    EXPECT_EQ(q[3], 127);
    std::vector<double> plain(kSize);
    for (int i = 0; i < kSize; ++i) {
      plain[i] = std::round(w[i]);
      EXPECT_LT(std::abs(q[i] - w[i]), 1);
      EXPECT_EQ(q[i], std::round(q[i]));
    }
    EXPECT_NEAR(nearest, SquaredChange(gram, w, plain), 1e-9);
    EXPECT_NEAR(chosen, SquaredChange(gram, w, q), 1e-9);
    EXPECT_LE(chosen, nearest);
    double best = INFINITY;
    for (int choice = 0; choice < 1 << kSize; ++choice) {
      std::vector<double> other(kSize);
      for (int i = 0; i < kSize; ++i) {
        other[i] = choice >> i & 1 ? std::ceil(w[i]) : std::floor(w[i]);
      }
      best = std::min(best, SquaredChange(gram, w, other));
    }
    sum_nearest += nearest;
    sum_chosen += chosen;
    sum_best += best;
  }
  EXPECT_LT(sum_chosen, 1.3 * sum_best);
  EXPECT_LT(sum_chosen, sum_nearest / 2) << sum_best;
}

// Blocks of the decomposition, sizes that they do not divide, and inputs that are always 0.
TEST(CodeChoiceTest, LargeAndSingularMatrices) {
  for (const int64_t size : {1, 47, 48, 130}) {
    std::vector<double> gram = Gram(size, 7);
    for (int64_t i = 0; i < size; ++i) gram[i] = gram[i * size] = 0;
    std::vector<double> w = TestNumbers(size, 3);
    for (double& value : w) value *= 30;
    double nearest = 0, chosen = 0;
    const std::vector<double> q = CodeChoice(gram, size).Choose(w, 127, &nearest, &chosen);
    EXPECT_NEAR(chosen, SquaredChange(gram, w, q), 1e-6 * (1 + chosen)) << size;
    if (size > 1) {
      EXPECT_LT(chosen, 0.4 * nearest) << size;
    }
  }
  double nearest = 1, chosen = 1;
  CodeChoice(std::vector<double>(9, 0), 3).Choose({0.4, 1.7, 5}, 127, &nearest, &chosen);
  EXPECT_EQ(chosen, 0);
}

// All rows are read, so that the reported squares are those of the layers' outputs.
class WeightRoundingTest : public testing::TestWithParam<const char*> {};

TEST_P(WeightRoundingTest, SquaresAreThoseOfTheOutputs) {
  const std::string text = InputText("data", {3, 4, 7, 6}) +
                           "layer { name: 'a' bottom: 'data' top: 'a' " + GetParam() + " } ";
  const auto net = MakeNet(text, Cpu());
  net->Keep({"data"});
  FillInputs(net.get());
  net->Forward();
  const std::vector<double> exact = Values(*net, "a");
  NetParameter file;
  net->ToProto(&file);
  WeightRounding rounding(*net, file, kQuant8, false, 1);
  rounding.Add(*net);
  const auto rounded = rounding.Round([](int64_t, int64_t) {});
  ASSERT_EQ(rounded.count(1), 1u);
  const WeightRounding::Rounded& result = rounded.at(1);
  EXPECT_LT(result.chosen, result.nearest);
  const auto other = MakeNet(text, Cpu());
  other->CopyTrainedLayersFrom(file);
  other->params()[0]->SetData({result.weights.begin(), result.weights.end()});
  FillInputs(other.get());
  other->Forward();
  const std::vector<double> values = Values(*other, "a");
  double square = 0;
  for (size_t i = 0; i < values.size(); ++i) square += std::pow(values[i] - exact[i], 2);
  const int64_t channels = other->BlobByName("a")->shape(1);
  EXPECT_NEAR(square / static_cast<double>(values.size() / channels), result.chosen,
              1e-3 * result.chosen);
  // The codes are those of the same scale, and the largest weight keeps its own.
  const std::vector<double> before = net->params()[0]->DataAsDouble();
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_LT(std::abs(before[i] - result.weights[i]), 1.01 * 0.5 / 127) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, WeightRoundingTest,
    testing::Values(
        "type: 'InnerProduct' inner_product_param { num_output: 8 weight_filler { type: 'uniform' "
        "min: -0.5 max: 0.5 } }",
        "type: 'InnerProduct' inner_product_param { num_output: 8 transpose: true weight_filler { "
        "type: 'uniform' min: -0.5 max: 0.5 } }",
        "type: 'Convolution' convolution_param { num_output: 6 kernel_size: 3 pad: 1 stride: 2 "
        "bias_term: false weight_filler { type: 'uniform' min: -0.5 max: 0.5 } }",
        "type: 'Convolution' convolution_param { num_output: 8 kernel_h: 3 kernel_w: 2 group: 2 "
        "dilation: 2 pad: 2 weight_filler { type: 'uniform' min: -0.5 max: 0.5 } }"));

// ---- As a part of the quantization of a net.

const char* const kNet =
    "name: 'two' layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 8 dim: "
    "4 "
    "dim: 8 dim: 8 } } } "
    "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param { "
    "  num_output: 16 kernel_size: 3 weight_filler { type: 'gaussian' std: 0.2 } } } "
    "layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' } "
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'conv' top: 'ip' inner_product_param { "
    "  num_output: 6 weight_filler { type: 'gaussian' std: 0.05 } } } ";

struct Settings {
  bool adaround = false, corrects = false, equalize = false;
  const NetParameter* weights = nullptr;
  bool tune_ranges = false;
};

QuantizedNet Quantized(const Settings& settings) {
  NetParameter weights;
  MakeNet(kNet, Cpu())->ToProto(&weights);
  if (settings.weights) weights = *settings.weights;
  const BatchReader read = [](int64_t index, Batch* batch) {
    if (index >= 12) return false;
    std::vector<double> numbers = TestNumbers(8 * 4 * 64, 30 + index);
    // Values that depend on each other, with a mean, as those of images.
    for (size_t i = 1; i < numbers.size(); ++i)
      numbers[i] = 0.9 * numbers[i - 1] + 0.3 * numbers[i] + 0.1;
    batch->values["data"].assign(numbers.begin(), numbers.end());
    return true;
  };
  QuantizeOptions options;
  options.calibration_batches = 8;
  options.device = Cpu();
  options.adaround = settings.adaround;
  options.bias_correction = settings.corrects;
  options.equalize = settings.equalize;
  options.tune_ranges = settings.tune_ranges;
  return QuantizeNet(ParseNet(kNet), weights, read, options);
}

const LayerReport& Row(const QuantizeReport& report, const std::string& layer) {
  for (const LayerReport& row : report.layers) {
    if (row.layer == layer) return row;
  }
  throw Error("no row of " + layer);
}

TEST(AdaRoundTest, TheQuantizedNetHasLessNoise) {
  for (const bool corrects : {false, true}) {
    const QuantizedNet nearest = Quantized({false, corrects}),
                       adapted = Quantized({true, corrects});
    for (const char* layer : {"conv", "ip"}) {
      EXPECT_EQ(Row(nearest.report, layer).rounding, "nearest");
      EXPECT_EQ(Row(adapted.report, layer).rounding, "adaround");
      EXPECT_GT(Row(adapted.report, layer).rounding_gain, 1) << layer << corrects;
      EXPECT_GT(Row(adapted.report, layer).snr, Row(nearest.report, layer).snr)
          << layer << corrects;
    }
    EXPECT_EQ(Row(adapted.report, "data").rounding, "");
    EXPECT_TRUE(Holds(ReportText(adapted.report), "adaround +"));
    EXPECT_TRUE(
        Holds(ReportJson(adapted.report), "\"rounding\": \"adaround\", \"rounding_gain\": "));
    EXPECT_EQ(adapted.report.corrected_biases, corrects ? 2 : 0);
  }
}

// A channel that no weight reads decides the range of its blob, until ranges are tuned.
TEST(TuneRangesTest, ValuesThatNobodyReadsAreClipped) {
  NetParameter weights;
  MakeNet(kNet, Cpu())->ToProto(&weights);
  for (LayerParameter& layer : *weights.mutable_layer()) {
    if (layer.name() == "conv") layer.mutable_blobs(1)->mutable_data()->Set(0, 40.f);
    if (layer.name() != "ip") continue;
    auto* data = layer.mutable_blobs(0)->mutable_data();
    for (int i = 0; i < data->size(); ++i) {
      if (i % (16 * 36) < 36) data->Set(i, 0);  // of channel 0
    }
  }
  const QuantizedNet plain = Quantized({.weights = &weights}),
                     tuned = Quantized({.weights = &weights, .tune_ranges = true});
  EXPECT_EQ(plain.report.tuned_ranges, 0);
  EXPECT_GE(tuned.report.tuned_ranges, 1);
  EXPECT_EQ(Row(tuned.report, "conv").range.origin, "scores");
  EXPECT_LT(Row(tuned.report, "conv").range.high, 0.6 * Row(plain.report, "conv").range.high);
  EXPECT_GT(Row(tuned.report, "ip").snr, Row(plain.report, "ip").snr + 3);
}

TEST(AdaRoundTest, GoesWithEqualizedChannels) {
  const QuantizedNet both = Quantized({true, true, true});
  EXPECT_EQ(Row(both.report, "ip").rounding, "adaround");
  EXPECT_GT(Row(both.report, "ip").snr, 25);
}

}  // namespace
}  // namespace caffe

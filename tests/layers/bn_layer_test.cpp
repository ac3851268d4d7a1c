#include <gtest/gtest.h>

#include <cmath>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/in_place.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

std::string BNText(const std::string& parameters, const std::string& more = "") {
  return "type: 'BN' bn_param { " + parameters + " } " + more;
}

using Values = std::vector<double>;

// Values per channel of [outer, channels, inner] in double.
struct Channels {
  int64_t channels, inner;
  explicit Channels(const Shape& shape) : channels(shape[1]), inner(ShapeCount(shape, 2)) {}
  size_t Of(size_t i) const { return i / inner % channels; }
  Values Mean(const Values& x) const {
    Values mean(channels);
    for (size_t i = 0; i < x.size(); ++i) mean[Of(i)] += x[i] * channels / x.size();
    return mean;
  }
  // Biased.
  Values Variance(const Values& x) const {
    Values squares = x;
    const Values mean = Mean(x);
    for (size_t i = 0; i < x.size(); ++i) squares[i] = (x[i] - mean[Of(i)]) * (x[i] - mean[Of(i)]);
    return Mean(squares);
  }
  Values Sum(const Values& a, const Values& b) const {
    Values sum(channels);
    for (size_t i = 0; i < a.size(); ++i) sum[Of(i)] += a[i] * b[i];
    return sum;
  }
};

// The results of a forward and a backward of the formula.
struct Expected {
  Values y, x_diff, slope_diff, bias_diff;
};

// `batch`: mean and variance depend on x.
Expected Formula(const Shape& shape, const Values& x, const Values& d, const Values& mean,
                 const Values& variance, double eps, const Values& slope, const Values& bias,
                 bool batch) {
  const Channels c(shape);
  Values v(x.size()), ones(x.size(), 1);
  Expected e{Values(x.size()), Values(x.size()), {}, {}};
  for (size_t i = 0; i < x.size(); ++i) {
    v[i] = (x[i] - mean[c.Of(i)]) / std::sqrt(variance[c.Of(i)] + eps);
    e.y[i] = slope[c.Of(i)] * v[i] + bias[c.Of(i)];
  }
  e.slope_diff = c.Sum(v, d);
  e.bias_diff = c.Sum(ones, d);
  const double m = static_cast<double>(x.size()) / static_cast<double>(c.channels);
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t k = c.Of(i);
    double change = d[i];
    if (batch) change -= e.bias_diff[k] / m + v[i] * e.slope_diff[k] / m;
    e.x_diff[i] = slope[k] * change / std::sqrt(variance[k] + eps);
  }
  return e;
}

// Numbers whose channels differ in mean and deviation.
Values Bottoms(const Shape& shape) {
  Values x = TestNumbers(ShapeCount(shape), 1);
  const Channels c(shape);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = x[i] * static_cast<double>(1 << c.Of(i) % 3) + static_cast<double>(c.Of(i)) - 1;
  }
  return x;
}

const Shape kShapes[] = {{3, 5, 7, 11}, {9, 5}, {2, 5, 300}, {1, 5, 2}, {4, 5, 61, 67}};
const Values kSlope{1, -0.5, 2, 0.75, 1.5}, kBias{0, 1, -0.5, 0.25, 2};
const Values kMeans{1, -2, 0.5, 3, 0}, kVariances{2, 8, 0.5, 1, 4};

class BNLayerTest : public testing::TestWithParam<DeviceType> {
 protected:
  // Sets slope and bias, runs forward and backward and in place, and compares with the formula.
  void Run(LayerTester* layer, const Shape& shape, const Values& mean, const Values& variance,
           double eps, bool batch, bool learns = true) {
    const DataType type = GetParam().type;
    const double tolerance = 3 * Tolerance(type);
    const auto& blobs = layer->layer().blobs();
    blobs[0]->SetData(kSlope);
    blobs[1]->SetData(kBias);
    for (const auto& blob : blobs) blob->SetDiff(Values(5, 0.5));
    layer->Forward();
    layer->RandomTopDiff();
    layer->Backward();
    const Expected e = Formula(shape, layer->Bottom(0), layer->top().DiffAsDouble(), mean, variance,
                               eps, kSlope, kBias, batch);
    ExpectNear(layer->Top(), e.y, tolerance, "y");
    ExpectNear(layer->BottomDiff(0), e.x_diff, tolerance, "dE/dx");
    // The gradients of parameters are added.
    Values slope_diff(5, 0.5), bias_diff(5, 0.5);
    for (int i = 0; learns && i < 5; ++i) {
      slope_diff[i] += e.slope_diff[i];
      bias_diff[i] += e.bias_diff[i];
    }
    const double sum_tolerance = type == kDouble ? 1e-10 : 2e-3;
    ExpectNear(blobs[0]->DiffAsDouble(), slope_diff, sum_tolerance, "dE/dslope");
    ExpectNear(blobs[1]->DiffAsDouble(), bias_diff, sum_tolerance, "dE/dbias");
  }
  static void ExpectInPlace(LayerTester* layer) {
    const InPlaceResult in_place = RunInPlace(*layer);
    EXPECT_EQ(in_place.data, layer->Top());
    EXPECT_EQ(in_place.diff, layer->BottomDiff(0));
  }
};

TEST_P(BNLayerTest, StatisticsOfTheBatch) {
  const auto [device, type] = GetParam();
  const double blob_tolerance = type == kDouble ? 1e-12 : 2e-5;
  for (const Shape& shape : kShapes) {
    LayerTester layer(BNText("momentum: 0.75 eps: 0.25"), device, TypeTriple::Equal(type), {shape});
    layer.SetBottom(0, Bottoms(shape));
    const Channels c(shape);
    const Values x = layer.Bottom(0), mean = c.Mean(x), variance = c.Variance(x);
    const auto& blobs = layer.layer().blobs();
    ASSERT_EQ(blobs.size(), 4u);
    for (const auto& blob : blobs) EXPECT_EQ(blob->shape(), Shape({1, 5, 1, 1}));
    blobs[2]->SetData(kMeans);
    blobs[3]->SetData(kVariances);
    Run(&layer, shape, mean, variance, 0.25, true);
    Values means(5), variances(5);
    for (int i = 0; i < 5; ++i) {
      means[i] = 0.75 * kMeans[i] + 0.25 * mean[i];
      variances[i] = 0.75 * kVariances[i] + 0.25 * variance[i];
    }
    ExpectNear(blobs[2]->DataAsDouble(), means, blob_tolerance, "moving mean");
    ExpectNear(blobs[3]->DataAsDouble(), variances, blob_tolerance, "moving variance");
    ExpectInPlace(&layer);
  }
}

TEST_P(BNLayerTest, StatisticsOfTheBlobs) {
  const auto [device, type] = GetParam();
  for (const Shape& shape : kShapes) {
    for (const bool frozen : {false, true}) {
      LayerTester layer(
          frozen ? BNText("eps: 0.25 frozen: true") : BNText("eps: 0.25", "phase: TEST"), device,
          TypeTriple::Equal(type), {shape});
      layer.SetBottom(0, Bottoms(shape));
      const auto& blobs = layer.layer().blobs();
      EXPECT_EQ(blobs[3]->DataAsDouble(), Values(5, frozen ? 1 : 0));
      blobs[2]->SetData(kMeans);
      blobs[3]->SetData(kVariances);
      Run(&layer, shape, kMeans, kVariances, 0.25, false, !frozen);
      EXPECT_EQ(blobs[2]->DataAsDouble(), kMeans) << "blobs do not move";
      EXPECT_EQ(blobs[3]->DataAsDouble(), kVariances);
      ExpectInPlace(&layer);
      // Others, as when weights are loaded.
      blobs[3]->SetData(kSlope);
      blobs[3]->SetData(kVariances);
      Run(&layer, shape, kMeans, kVariances, 0.25, false, !frozen);
    }
  }
}

TEST_P(BNLayerTest, SegNetLearns) {
  const auto [device, type] = GetParam();
  for (const Shape& shape : kShapes) {
    for (const char* more : {"", "phase: TEST"}) {
      for (const int tops : {1, 3}) {
        LayerTester layer(BNText("scale_filler { type: 'constant' value: 1 } "
                                 "shift_filler { type: 'constant' value: 0.001 }",
                                 more),
                          device, TypeTriple::Equal(type), {shape}, tops);
        const auto& blobs = layer.layer().blobs();
        ASSERT_EQ(blobs.size(), 2u);
        for (const auto& blob : blobs) EXPECT_EQ(blob->shape(), Shape({1, 5, 1, 1}));
        layer.SetBottom(0, Bottoms(shape));
        const Channels c(shape);
        const Values x = layer.Bottom(0), mean = c.Mean(x), variance = c.Variance(x);
        Run(&layer, shape, mean, variance, 1e-9, true);
        if (tops == 1) {
          ExpectInPlace(&layer);
          continue;
        }
        for (const int top : {1, 2}) {
          EXPECT_EQ(layer.top(top).type(), kFloat);
          EXPECT_EQ(layer.top(top).shape(), Shape({1, 5, 1, 1}));
        }
        ExpectNear(layer.Top(1), mean, 2e-5, "mean");
        ExpectNear(layer.Top(2), variance, 2e-5, "variance");
      }
    }
  }
}

TEST_P(BNLayerTest, SegNetInference) {
  const auto [device, type] = GetParam();
  for (const Shape& shape : kShapes) {
    LayerTester layer(BNText("bn_mode: INFERENCE"), device, TypeTriple::Equal(type), {shape});
    ASSERT_EQ(layer.layer().blobs().size(), 2u);
    layer.SetBottom(0, Bottoms(shape));
    Run(&layer, shape, Values(5, 0), Values(5, 1), 0, false);
    ExpectInPlace(&layer);
  }
}

TEST_P(BNLayerTest, NoImages) {
  const auto [device, type] = GetParam();
  for (const char* text : {"momentum: 0.5", "frozen: true", "bn_mode: LEARN"}) {
    LayerTester layer(BNText(text), device, TypeTriple::Equal(type), {{0, 5, 3, 3}});
    for (const auto& blob : layer.layer().blobs()) blob->SetDiff(Values(5, 0));
    const auto& last = *layer.layer().blobs().back();
    const Values before = last.DataAsDouble();
    layer.Forward();
    layer.Backward();
    EXPECT_EQ(last.DataAsDouble(), before) << text;
    EXPECT_EQ(layer.layer().blobs()[0]->DiffAsDouble(), Values(5, 0)) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(All, BNLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(BNLayerGradientTest, AgreesWithDifferences) {
  for (const char* text :
       {"eps: 0.1", "eps: 0.1 frozen: true", "bn_mode: LEARN", "bn_mode: INFERENCE"}) {
    for (const Shape& shape : {Shape{3, 2, 3, 4}, Shape{6, 3}}) {
      LayerTester layer(BNText(text), Runtime::Get().cpu(), TypeTriple::Equal(kDouble), {shape});
      const auto& blobs = layer.layer().blobs();
      blobs[0]->SetData(TestNumbers(shape[1], 5));
      blobs[1]->SetData(TestNumbers(shape[1], 6));
      const bool frozen = std::string(text).ends_with("frozen: true");
      if (blobs.size() == 4) blobs[3]->SetData(Values(shape[1], 1.5));
      // Statistics, and all blobs of a frozen layer, have no gradient.
      for (size_t i = frozen ? 0 : 2; i < blobs.size(); ++i) {
        layer.layer().set_param_propagate_down(static_cast<int>(i), false);
      }
      layer.CheckGradient();
    }
  }
}

// A mean far larger than the deviation must not cost the variance its digits.
TEST(BNLayerAccuracyTest, LargeMeans) {
  const Shape shape{4, 2, 300};
  Values x = TestNumbers(ShapeCount(shape), 3);
  for (double& value : x) value += 4096;
  const Channels c(shape);
  for (const auto& [device, type] : DevicesAndTypes({kFloat, kDouble})) {
    LayerTester layer(BNText(""), device, TypeTriple::Equal(type), {shape});
    layer.SetBottom(0, x);
    layer.Forward();
    const Expected e = Formula(shape, x, x, c.Mean(x), c.Variance(x), 1e-5, {1, 1}, {0, 0}, true);
    ExpectNear(layer.Top(), e.y, 2e-3, "y");
  }
}

TEST(BNLayerParameterTest, RatesOfStatisticsAreZero) {
  const auto rates = [](const std::string& text, const std::string& more) {
    LayerTester layer(BNText(text, more), Runtime::Get().cpu(), TypeTriple::Equal(kFloat),
                      {{4, 3}});
    Values rates;
    for (const ParamSpec& param : layer.layer().layer_param().param()) {
      rates.push_back(param.lr_mult());
      rates.push_back(param.decay_mult());
    }
    return rates;
  };
  EXPECT_EQ(rates("", ""), Values({1, 1, 1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(rates("", "param { lr_mult: 10 decay_mult: 0 }"), Values({10, 0, 1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(rates("", "param { } param { } param { lr_mult: 2 }"),
            Values({1, 1, 1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(rates("frozen: true", "param { lr_mult: 10 }"), Values(8, 0));
  EXPECT_EQ(rates("bn_mode: LEARN", "param { lr_mult: 3 }"), Values({3, 1}));
}

TEST(BNLayerParameterTest, Fillers) {
  const auto start = [](const std::string& text, int blob) {
    LayerTester layer(BNText(text), Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{4, 2}});
    return layer.layer().blobs()[blob]->DataAsDouble();
  };
  EXPECT_EQ(start("", 0), Values({1, 1}));
  EXPECT_EQ(start("", 1), Values({0, 0}));
  EXPECT_EQ(start("slope_filler { value: 2 } bias_filler { value: 3 }", 0), Values({2, 2}));
  EXPECT_EQ(start("slope_filler { value: 2 } bias_filler { value: 3 }", 1), Values({3, 3}));
  EXPECT_EQ(start("scale_filler { value: 4 } shift_filler { value: 5 }", 0), Values({4, 4}));
  EXPECT_EQ(start("scale_filler { value: 4 } shift_filler { value: 5 }", 1), Values({5, 5}));
  EXPECT_EQ(start("bn_mode: INFERENCE", 0), Values({1, 1}));
}

TEST(BNLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto message = [](const std::string& text, const Shape& shape, int tops = 1) {
    return ErrorOf([&] {
      LayerTester(BNText(text), Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {shape}, tops);
    });
  };
  EXPECT_EQ(message("", {4}), "tested (BN): needs a bottom of at least 2 axes; it has shape 4 (4)");
  EXPECT_EQ(message("eps: -1", {4, 3}), "tested (BN): eps -1 must not be negative");
  EXPECT_EQ(message("bn_mode: LEARN momentum: 0.5", {4, 3}),
            "tested (BN): bn_param has fields of two forms: scale_filler, shift_filler and bn_mode "
            "are SegNet's; slope_filler, bias_filler, momentum, eps and frozen are PSPNet's");
  for (const char* text : {"", "bn_mode: INFERENCE"}) {
    EXPECT_EQ(message(text, {4, 3}, 2),
              "tested (BN): only SegNet's form with bn_mode LEARN has tops for mean and variance");
  }
  LayerTester layer(BNText(""), Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{4, 3}});
  layer.bottom().Reshape({4, 2});
  EXPECT_EQ(ErrorOf([&] { layer.Forward(); }),
            "tested (BN): was made for 3 channels on axis 1, but the bottom has shape 4 2 (8)");
}

}  // namespace
}  // namespace caffe

#include <gtest/gtest.h>

#include <cmath>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/work.hpp"
#include "caffe/memory/blob.hpp"
#include "support/devices.hpp"
#include "support/in_place.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

std::string BatchNormText(const std::string& parameters, const std::string& more = "") {
  return "type: 'BatchNorm' batch_norm_param { " + parameters + " } " + more;
}

// Statistics of [outer, channels, inner] in double.
struct Statistics {
  std::vector<double> mean, variance;  // biased
  double m = 0;
};

Statistics StatisticsOf(const std::vector<double>& x, const Shape& shape) {
  const int64_t channels = shape[1], inner = ShapeCount(shape, 2);
  Statistics s{std::vector<double>(channels, 0), std::vector<double>(channels, 0),
               static_cast<double>(x.size() / channels)};
  for (size_t i = 0; i < x.size(); ++i) s.mean[i / inner % channels] += x[i] / s.m;
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = i / inner % channels;
    s.variance[c] += (x[i] - s.mean[c]) * (x[i] - s.mean[c]) / s.m;
  }
  return s;
}

std::vector<double> Normalized(const std::vector<double>& x, const Shape& shape,
                               const std::vector<double>& mean, const std::vector<double>& variance,
                               double eps) {
  const int64_t channels = shape[1], inner = ShapeCount(shape, 2);
  std::vector<double> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = i / inner % channels;
    y[i] = (x[i] - mean[c]) / std::sqrt(variance[c] + eps);
  }
  return y;
}

// dE/dx of the batch's statistics from v = (x - mean) / deviation and dE/dv.
std::vector<double> GradientOf(const std::vector<double>& v, const std::vector<double>& d,
                               const Shape& shape, const Statistics& s, double eps) {
  const int64_t channels = shape[1], inner = ShapeCount(shape, 2);
  std::vector<double> sum(channels, 0), dot(channels, 0), x_diff(v.size());
  for (size_t i = 0; i < v.size(); ++i) {
    sum[i / inner % channels] += d[i];
    dot[i / inner % channels] += d[i] * v[i];
  }
  for (size_t i = 0; i < v.size(); ++i) {
    const size_t c = i / inner % channels;
    x_diff[i] = (d[i] - sum[c] / s.m - v[i] * dot[c] / s.m) / std::sqrt(s.variance[c] + eps);
  }
  return x_diff;
}

// Numbers whose channels differ in mean and deviation.
std::vector<double> Bottoms(const Shape& shape, uint64_t seed) {
  const int64_t channels = shape[1], inner = ShapeCount(shape, 2);
  std::vector<double> x = TestNumbers(ShapeCount(shape), seed);
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = i / inner % channels;
    x[i] = x[i] * static_cast<double>(1 << c % 3) + static_cast<double>(c) - 1;
  }
  return x;
}

const Shape kShapes[] = {{3, 5, 7, 11}, {9, 5}, {2, 5, 300}, {1, 5, 2}, {4, 5, 61, 67}};

class BatchNormLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(BatchNormLayerTest, BatchStatistics) {
  const auto [device, type] = GetParam();
  const double tolerance = 2 * Tolerance(type), blob_tolerance = type == kDouble ? 1e-12 : 2e-5;
  for (const Shape& shape : kShapes) {
    for (bool relu : {false, true}) {
      LayerTester layer(BatchNormText(Concat("moving_average_fraction: 0.75 eps: 0.25 fused_relu: ",
                                             relu ? "true" : "false")),
                        device, TypeTriple::Equal(type), {shape});
      layer.SetBottom(0, Bottoms(shape, 1));
      const std::vector<double> x = layer.Bottom(0);
      const Statistics s = StatisticsOf(x, shape);
      layer.Forward();
      const std::vector<double> v = Normalized(x, shape, s.mean, s.variance, 0.25);
      std::vector<double> y = v;
      if (relu) {
        for (double& value : y) value = std::max(value, 0.0);
      }
      ExpectNear(layer.Top(), y, tolerance, "y");

      layer.RandomTopDiff();
      layer.Backward();
      std::vector<double> d = layer.top().DiffAsDouble();
      for (size_t i = 0; i < d.size(); ++i) {
        if (relu && v[i] <= 0) d[i] = 0;
      }
      ExpectNear(layer.BottomDiff(0), GradientOf(v, d, shape, s, 0.25), tolerance, "dE/dx");

      // In place, and the second update of the blobs.
      const InPlaceResult in_place = RunInPlace(layer);
      EXPECT_EQ(in_place.data, layer.Top());
      EXPECT_EQ(in_place.diff, layer.BottomDiff(0));
      std::vector<double> means = s.mean, variances = s.variance;
      for (size_t c = 0; c < means.size(); ++c) {
        means[c] *= 1.75;
        variances[c] *= 1.75 * s.m / (s.m - 1);
      }
      const auto& blobs = layer.layer().blobs();
      ExpectNear(blobs[0]->DataAsDouble(), means, blob_tolerance, "blob 0");
      ExpectNear(blobs[1]->DataAsDouble(), variances, blob_tolerance, "blob 1");
      EXPECT_EQ(blobs[2]->DataAsDouble(), std::vector<double>{1.75});
    }
  }
}

// The work of a training step, with Scale and ReLU, for a bottom whose channels are neighbours: it
// is [rows, channels].
TEST_P(BatchNormLayerTest, TrainsWithScaleAndChannelsLast) {
  const auto [device, type] = GetParam();
  const double tolerance = 4 * Tolerance(type), sum_tolerance = type == kDouble ? 1e-9 : 2e-4;
  const DataType master = type == kDouble ? kDouble : kFloat;
  for (const Shape& shape : {Shape{3, 5, 7, 11}, Shape{70, 9, 4, 3}, Shape{60, 16, 5, 3},
                             Shape{1, 8, 1, 2}, Shape{3, 300, 2, 1}}) {
    for (const bool relu : {false, true}) {
      const Shape rows{ShapeCount(shape) / shape[1], shape[1]};
      LayerTester layer(BatchNormText("moving_average_fraction: 0.75 eps: 0.0078125"), device,
                        TypeTriple::Equal(type), {shape});
      layer.SetBottom(0, Bottoms(rows, 1));
      const auto scale = MakeBlob(master, device, {shape[1]}, "scale");
      const auto shift = MakeBlob(master, device, {shape[1]}, "shift");
      scale->SetData(TestNumbers(shape[1], 2));
      shift->SetData(TestNumbers(shape[1], 3));
      for (BlobBase* blob : {scale.get(), shift.get()}) {
        blob->SetDiff(std::vector<double>(shape[1], 0.5));
      }
      WorkRequest request;
      request.scale = ChannelScale{1, scale.get(), shift.get()};
      if (relu) request.stages.push_back(kPlainReLU);
      request.layouts = {Layout::kNHWC, Layout::kNHWC};
      request.gradients = {true};
      ASSERT_TRUE(layer.layer().Facts().layouts.trains);
      const auto work = layer.layer().MakeWork(request, {&layer.bottom()}, {&layer.top()});
      work->Prepare();
      work->Run({});

      const std::vector<double> x = layer.Bottom(0);
      const std::vector<double> a = scale->DataAsDouble(), b = shift->DataAsDouble();
      const Statistics s = StatisticsOf(x, rows);
      const std::vector<double> v = Normalized(x, rows, s.mean, s.variance, 0.0078125);
      std::vector<double> y(v.size());
      for (size_t i = 0; i < v.size(); ++i) {
        const size_t c = i % a.size();
        y[i] = v[i] * a[c] + b[c];
        if (relu) y[i] = std::max(y[i], 0.0);
      }
      ExpectNear(layer.Top(), y, tolerance, "y");
      const auto& blobs = layer.layer().blobs();
      std::vector<double> variances = s.variance;
      for (double& variance : variances) variance *= s.m / (s.m - 1);
      ExpectNear(blobs[0]->DataAsDouble(), s.mean, sum_tolerance, "blob 0");
      ExpectNear(blobs[1]->DataAsDouble(), variances, sum_tolerance, "blob 1");
      EXPECT_EQ(blobs[2]->DataAsDouble(), std::vector<double>{1});

      layer.RandomTopDiff();
      work->Backward({});
      std::vector<double> d = layer.top().DiffAsDouble(), by_shift(a.size(), 0.5),
                          by_scale = by_shift;
      for (size_t i = 0; i < d.size(); ++i) {
        const size_t c = i % a.size();
        if (relu && v[i] * a[c] + b[c] <= 0) d[i] = 0;
        by_shift[c] += d[i];
        by_scale[c] += d[i] * v[i];
        d[i] *= a[c];
      }
      ExpectNear(layer.BottomDiff(0), GradientOf(v, d, rows, s, 0.0078125), tolerance, "dE/dx");
      ExpectNear(scale->DiffAsDouble(), by_scale, sum_tolerance, "dE/dscale");
      ExpectNear(shift->DiffAsDouble(), by_shift, sum_tolerance, "dE/dshift");

      // Other forwards of the same statistics do not count.
      const std::vector<double> once = layer.Top();
      work->Repeat({});
      EXPECT_EQ(layer.Top(), once);
      EXPECT_EQ(blobs[2]->DataAsDouble(), std::vector<double>{1});
    }
  }
}

TEST_P(BatchNormLayerTest, GlobalStatistics) {
  const auto [device, type] = GetParam();
  const double tolerance = 2 * Tolerance(type);
  const std::vector<double> means{1, -2, 0.5, 3, 0}, variances{2, 8, 0.5, 1, 4};
  for (const Shape& shape : kShapes) {
    for (bool relu : {false, true}) {
      LayerTester layer(
          BatchNormText(Concat("eps: 0.25 fused_relu: ", relu ? "true" : "false"), "phase: TEST"),
          device, TypeTriple::Equal(type), {shape});
      const auto& blobs = layer.layer().blobs();
      layer.SetBottom(0, Bottoms(shape, 1));
      const std::vector<double> x = layer.Bottom(0);
      layer.Forward();
      // Without any statistics mean and variance are 0.
      std::vector<double> zeros(5, 0), y = Normalized(x, shape, zeros, zeros, 0.25);
      if (relu) {
        for (double& value : y) value = std::max(value, 0.0);
      }
      ExpectNear(layer.Top(), y, tolerance, "y without statistics");

      blobs[0]->SetData(means);
      blobs[1]->SetData(variances);
      blobs[2]->SetData({4});
      std::vector<double> mean = means, variance = variances;
      for (double& value : mean) value /= 4;
      for (double& value : variance) value /= 4;
      layer.Forward();
      const std::vector<double> v = Normalized(x, shape, mean, variance, 0.25);
      y = v;
      if (relu) {
        for (double& value : y) value = std::max(value, 0.0);
      }
      ExpectNear(layer.Top(), y, tolerance, "y");
      layer.RandomTopDiff();
      layer.Backward();
      std::vector<double> x_diff = layer.top().DiffAsDouble();
      const int64_t inner = ShapeCount(shape, 2);
      for (size_t i = 0; i < x_diff.size(); ++i) {
        x_diff[i] *= relu && v[i] <= 0 ? 0 : 1 / std::sqrt(variance[i / inner % 5] + 0.25);
      }
      ExpectNear(layer.BottomDiff(0), x_diff, tolerance, "dE/dx");

      const InPlaceResult in_place = RunInPlace(layer);
      EXPECT_EQ(in_place.data, layer.Top());
      EXPECT_EQ(in_place.diff, layer.BottomDiff(0));
      EXPECT_EQ(blobs[0]->DataAsDouble(), means) << "blobs do not move";
      EXPECT_EQ(blobs[2]->DataAsDouble(), std::vector<double>{4});
    }
  }
}

TEST_P(BatchNormLayerTest, FusedReluKeepsWhatIsNoNumber) {
  const auto [device, type] = GetParam();
  for (const Shape& shape : kShapes) {
    LayerTester layer(BatchNormText("fused_relu: true"), device, TypeTriple::Equal(type), {shape});
    std::vector<double> x = Bottoms(shape, 1);
    x[0] = std::nan("");
    layer.SetBottom(0, x);
    layer.Forward();
    const std::vector<double> y = layer.Top();
    const int64_t inner = ShapeCount(shape, 2);
    for (size_t i = 0; i < y.size(); ++i) {
      // The mean of its channel is NaN, too.
      EXPECT_EQ(std::isnan(y[i]), i / inner % 5 == 0) << "element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, BatchNormLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

// A mean far larger than the deviation must not cost the variance its digits. The narrow types
// cannot hold such values.
TEST(BatchNormLayerAccuracyTest, LargeMeans) {
  const Shape shape{4, 2, 300};
  std::vector<double> x = TestNumbers(ShapeCount(shape), 3);
  for (double& value : x) value += 4096;
  const Statistics s = StatisticsOf(x, shape);
  for (const auto& [device, type] : DevicesAndTypes({kFloat, kDouble})) {
    LayerTester layer(BatchNormText(""), device, TypeTriple::Equal(type), {shape});
    layer.SetBottom(0, x);
    layer.Forward();
    ExpectNear(layer.Top(), Normalized(x, shape, s.mean, s.variance, 1e-5), 2e-3, "y");
  }
}

TEST(BatchNormLayerGradientTest, AgreesWithDifferences) {
  for (const char* global : {"false", "true"}) {
    for (const char* relu : {"false", "true"}) {
      for (const Shape& shape : {Shape{3, 2, 3, 4}, Shape{6, 3}}) {
        LayerTester layer(
            BatchNormText(Concat("use_global_stats: ", global, " fused_relu: ", relu, " eps: 0.1")),
            Runtime::Get().cpu(), TypeTriple::Equal(kDouble), {shape});
        const auto& blobs = layer.layer().blobs();
        blobs[0]->SetData(std::vector<double>(shape[1], 0.01));
        blobs[1]->SetData(std::vector<double>(shape[1], 1.5));
        blobs[2]->SetData({2});
        // The blobs have no gradient.
        for (int i = 0; i < 3; ++i) layer.layer().set_param_propagate_down(i, false);
        layer.CheckGradient();
      }
    }
  }
}

TEST(BatchNormLayerModeTest, FollowsThePhase) {
  Device* cpu = Runtime::Get().cpu();
  const auto updates = [&](const std::string& text) {
    LayerTester layer(text, cpu, TypeTriple::Equal(kFloat), {{4, 3}});
    layer.Forward();
    return layer.layer().blobs()[2]->DataAsDouble()[0] != 0;
  };
  EXPECT_TRUE(updates(BatchNormText("")));
  EXPECT_FALSE(updates(BatchNormText("", "phase: TEST")));
  EXPECT_FALSE(updates(BatchNormText("use_global_stats: true")));
  EXPECT_TRUE(updates(BatchNormText("use_global_stats: false", "phase: TEST")));
}

TEST(BatchNormLayerModeTest, OneElementPerChannel) {
  LayerTester layer(BatchNormText(""), Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{1, 3}});
  layer.Forward();
  EXPECT_EQ(layer.Top(), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(layer.layer().blobs()[1]->asum_data(), 0) << "m / (m - 1) is left out for m = 1";
}

// With global statistics the device computes mean and deviation when the blobs change, not always.
TEST(BatchNormLayerModeTest, KeepsGlobalStatistics) {
  Device* cpu = Runtime::Get().cpu();
  LayerTester layer(BatchNormText("", "phase: TEST"), cpu, TypeTriple::Equal(kFloat), {{4, 3}});
  layer.Forward();
  cpu->ResetCounters();
  layer.Forward();
  EXPECT_EQ(cpu->counters().launches, 1);
  layer.layer().blobs()[2]->SetData({1});
  cpu->ResetCounters();
  layer.Forward();
  EXPECT_EQ(cpu->counters().launches, 2);
}

TEST(BatchNormLayerParameterTest, RatesAreZero) {
  const auto make = [](const std::string& more) {
    return LayerTester(BatchNormText("", more), Runtime::Get().cpu(), TypeTriple::Equal(kFloat),
                       {{4, 3}});
  };
  LayerTester none = make("");
  ASSERT_EQ(none.layer().layer_param().param_size(), 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(none.layer().layer_param().param(i).lr_mult(), 0);
  EXPECT_EQ(make("param { lr_mult: 0 }").layer().layer_param().param_size(), 3);
  EXPECT_NO_THROW(make("param { lr_mult: 0 } param { lr_mult: 0 } param { lr_mult: 0 }"));
  EXPECT_THROW(make("param { lr_mult: 1 }"), Error);
  EXPECT_THROW(make("param { lr_mult: 0 } param { lr_mult: 0 } param { decay_mult: 0 }"), Error);
}

TEST(BatchNormLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto make = [](const std::string& parameters, const Shape& shape) {
    return LayerTester(BatchNormText(parameters), Runtime::Get().cpu(), TypeTriple::Equal(kFloat),
                       {shape});
  };
  EXPECT_THROW(make("", {4}), Error);
  EXPECT_THROW(make("eps: -1", {4, 3}), Error);
  LayerTester layer = make("", {4, 3});
  layer.bottom().Reshape({4, 2});
  EXPECT_THROW(layer.Forward(), Error);
}

}  // namespace
}  // namespace caffe

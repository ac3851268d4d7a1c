#include <gtest/gtest.h>

#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/in_place.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

size_t ParameterIndex(const Shape& shape, int axis, size_t parameter_axes, size_t element) {
  const int end = axis + static_cast<int>(parameter_axes);
  const size_t inner = ShapeCount(Shape(shape.begin() + end, shape.end()));
  return element / inner % ShapeCount(Shape(shape.begin() + axis, shape.begin() + end));
}

struct Case {
  Shape shape;
  int axis, num_axes;
  Shape parameter;
};
const Case kCases[] = {{{2, 5, 3, 7}, 1, 1, {5}},
                       {{6, 5}, 1, 1, {5}},
                       {{2, 5, 3, 7}, 0, 2, {2, 5}},
                       {{2, 5, 3, 7}, -2, -1, {3, 7}},
                       {{2, 5, 3, 7}, 1, -1, {5, 3, 7}},
                       {{2, 5, 3, 7}, 1, 0, {}},
                       {{40}, 0, 0, {}},
                       {{3, 2, 700}, 1, 1, {2}},
                       {{7, 3, 61, 67}, 1, 1, {3}},
                       {{700, 9}, 1, 1, {9}}};

class ScaleLayerTest : public testing::TestWithParam<DeviceType> {};

void CheckAgainstFormula(const DeviceType& where, const Case& c, bool learned, bool bias) {
  const auto [device, type] = where;
  std::vector<Shape> shapes{c.shape};
  if (!learned) shapes.push_back(c.parameter);
  LayerTester layer(Concat("type: 'Scale' scale_param { axis: ", c.axis, " num_axes: ", c.num_axes,
                           " bias_term: ", bias ? "true" : "false", " }"),
                    device, TypeTriple::Equal(type), shapes);
  ASSERT_EQ(layer.layer().blobs().size(), static_cast<size_t>(learned + bias));
  BlobBase& scale = learned ? *layer.layer().blobs()[0] : layer.bottom(1);
  ASSERT_EQ(scale.shape(), c.parameter);
  if (learned) {
    EXPECT_EQ(scale.DataAsDouble(), std::vector<double>(scale.count(), 1)) << "default filler";
    scale.SetData(TestNumbers(scale.count(), 5));
  }
  std::vector<double> b(scale.count(), 0);
  if (bias) {
    BlobBase& blob = *layer.layer().blobs().back();
    ASSERT_EQ(blob.shape(), c.parameter);
    EXPECT_EQ(blob.asum_data(), 0) << "default filler";
    b = TestNumbers(blob.count(), 6);
    blob.SetData(b);
    blob.SetDiff(std::vector<double>(b.size(), 0.25));
  }
  const std::vector<double> x = layer.Bottom(0), s = scale.DataAsDouble();
  layer.Forward();
  layer.RandomTopDiff();
  scale.SetDiff(std::vector<double>(s.size(), 0.5));
  layer.Backward();
  const std::vector<double> d = layer.top().DiffAsDouble();
  const int axis = c.axis < 0 ? c.axis + static_cast<int>(c.shape.size()) : c.axis;
  std::vector<double> y(x.size()), x_diff(x.size());
  std::vector<double> s_diff(s.size(), learned ? 0.5 : 0), b_diff(s.size(), 0.25);
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t p = ParameterIndex(c.shape, axis, c.parameter.size(), i);
    y[i] = s[p] * x[i] + b[p];
    x_diff[i] = s[p] * d[i];
    s_diff[p] += x[i] * d[i];
    b_diff[p] += d[i];
  }
  // Sums are computed in float for every type of x.
  const double sum_tolerance = type == kDouble ? 1e-12 : 2e-5;
  const double scale_tolerance = learned ? sum_tolerance : Tolerance(type);
  ExpectNear(layer.Top(), y, Tolerance(type), "y");
  ExpectNear(layer.BottomDiff(0), x_diff, Tolerance(type), "dE/dx");
  ExpectNear(scale.DiffAsDouble(), s_diff, scale_tolerance, "dE/ds");
  if (bias) {
    ExpectNear(layer.layer().blobs().back()->DiffAsDouble(), b_diff, sum_tolerance, "dE/db");
  }
  scale.SetDiff(std::vector<double>(s.size(), 0.5));
  const InPlaceResult in_place = RunInPlace(layer, learned ? 1 : 2);
  EXPECT_EQ(in_place.data, layer.Top());
  EXPECT_EQ(in_place.diff, layer.BottomDiff(0));
  if (learned) ExpectNear(scale.DiffAsDouble(), s_diff, sum_tolerance, "dE/ds in place");
}

TEST_P(ScaleLayerTest, Learned) {
  for (const Case& c : kCases) {
    for (bool bias : {false, true}) CheckAgainstFormula(GetParam(), c, true, bias);
  }
}

TEST_P(ScaleLayerTest, SecondBottom) {
  for (const Case& c : kCases) {
    for (bool bias : {false, true}) CheckAgainstFormula(GetParam(), c, false, bias);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ScaleLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(ScaleLayerGradientTest, AgreesWithDifferences) {
  const std::string text =
      "type: 'Scale' scale_param { bias_term: true filler { type: 'gaussian' std: 1 } "
      "bias_filler { type: 'gaussian' std: 1 } }";
  for (const std::vector<Shape>& shapes :
       {std::vector<Shape>{{2, 3, 4}}, {{4, 3}}, {{2, 3, 4}, {3, 4}}, {{2, 3, 4}, {3}}}) {
    LayerTester layer(text, Runtime::Get().cpu(), TypeTriple::Equal(kDouble), shapes);
    layer.CheckGradient();
  }
}

// Two runs give the same bits: no atomics, no order that depends on timing.
TEST(ScaleLayerSumTest, RepeatsExactly) {
  for (Device* device : TestDevices()) {
    LayerTester layer("type: 'Scale' scale_param { bias_term: true }", device,
                      TypeTriple::Equal(kFloat), {{7, 3, 61, 67}});
    std::vector<double> first;
    for (int run = 0; run < 3; ++run) {
      layer.layer().blobs()[0]->SetDiff({0, 0, 0});
      layer.Forward();
      layer.RandomTopDiff();
      layer.Backward();
      const std::vector<double> gradient = layer.layer().blobs()[0]->DiffAsDouble();
      if (run == 0) first = gradient;
      EXPECT_EQ(gradient, first) << device->info().id;
    }
  }
}

TEST(ScaleLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto make = [](const std::string& parameters, const std::vector<Shape>& shapes) {
    return LayerTester("type: 'Scale' scale_param { " + parameters + " }", Runtime::Get().cpu(),
                       TypeTriple::Equal(kFloat), shapes);
  };
  EXPECT_NO_THROW(make("", {{2, 3}}));
  EXPECT_THROW(make("num_axes: -2", {{2, 3}}), Error);
  EXPECT_THROW(make("num_axes: 2", {{2, 3}}), Error);
  EXPECT_THROW(make("axis: 2", {{2, 3}}), Error);
  EXPECT_THROW(make("", {{2, 3}, {2}}), Error);
  EXPECT_THROW(make("", {{2, 3}, {3}, {3}}), Error);
  LayerTester layer = make("", {{2, 3}});
  layer.bottom().Reshape({2, 4});
  EXPECT_THROW(layer.Forward(), Error);
  // Loaded parameters of other shapes.
  const std::string three = " blobs { shape { dim: 3 } data: 1 data: 1 data: 1 }";
  const std::string two = " blobs { shape { dim: 2 } data: 1 data: 1 }";
  const auto load = [](const std::string& blobs) {
    LayerTester("type: 'Scale' scale_param { bias_term: true }" + blobs, Runtime::Get().cpu(),
                TypeTriple::Equal(kFloat), {{2, 3}});
  };
  EXPECT_NO_THROW(load(three + three));
  EXPECT_THROW(load(two + three), Error);
  EXPECT_THROW(load(three + two), Error);
}

}  // namespace
}  // namespace caffe

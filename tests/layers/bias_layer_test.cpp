#include <gtest/gtest.h>

#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/in_place.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

// The summand that each element of a bottom of this shape gets from a parameter that begins at
// `axis`.
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
const Case kCases[] = {{{2, 5, 3, 7}, 1, 1, {5}},        {{6, 5}, 1, 1, {5}},
                       {{2, 5, 3, 7}, 0, 1, {2}},        {{2, 5, 3, 7}, 1, 2, {5, 3}},
                       {{2, 5, 3, 7}, 1, -1, {5, 3, 7}}, {{2, 5, 3, 7}, -2, 1, {3}},
                       {{2, 5, 3, 7}, 1, 0, {}},         {{40}, 0, 0, {}},
                       {{3, 2, 700}, 1, 1, {2}}};

class BiasLayerTest : public testing::TestWithParam<DeviceType> {};

void CheckAgainstFormula(const DeviceType& where, const Case& c, bool learned) {
  const auto [device, type] = where;
  std::vector<Shape> shapes{c.shape};
  if (!learned) shapes.push_back(c.parameter);
  LayerTester layer(
      Concat("type: 'Bias' bias_param { axis: ", c.axis, " num_axes: ", c.num_axes, " }"), device,
      TypeTriple::Equal(type), shapes);
  BlobBase& parameter = learned ? *layer.layer().blobs()[0] : layer.bottom(1);
  ASSERT_EQ(parameter.shape(), c.parameter);
  if (learned) {
    EXPECT_EQ(parameter.asum_data(), 0) << "default filler";
    parameter.SetData(TestNumbers(parameter.count(), 5));
  }
  const std::vector<double> x = layer.Bottom(0), b = parameter.DataAsDouble();
  layer.Forward();
  layer.RandomTopDiff();
  parameter.SetDiff(std::vector<double>(b.size(), 0.5));
  layer.Backward();
  const std::vector<double> d = layer.top().DiffAsDouble();
  const int axis = c.axis < 0 ? c.axis + static_cast<int>(c.shape.size()) : c.axis;
  std::vector<double> y(x.size()), b_diff(b.size(), learned ? 0.5 : 0);
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t p = ParameterIndex(c.shape, axis, c.parameter.size(), i);
    y[i] = x[i] + b[p];
    b_diff[p] += d[i];
  }
  ExpectNear(layer.Top(), y, Tolerance(type), "y");
  EXPECT_EQ(layer.BottomDiff(0), d);
  ExpectNear(parameter.DiffAsDouble(), b_diff,
             type == kDouble ? 1e-12
             : learned       ? 2e-5
                             : Tolerance(type),
             "dE/db");
  const InPlaceResult in_place = RunInPlace(layer, learned ? 1 : 2);
  EXPECT_EQ(in_place.data, layer.Top());
  EXPECT_EQ(in_place.diff, d);
}

TEST_P(BiasLayerTest, Learned) {
  for (const Case& c : kCases) CheckAgainstFormula(GetParam(), c, true);
}

TEST_P(BiasLayerTest, SecondBottom) {
  for (const Case& c : kCases) CheckAgainstFormula(GetParam(), c, false);
}

INSTANTIATE_TEST_SUITE_P(All, BiasLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(BiasLayerGradientTest, AgreesWithDifferences) {
  const std::string text = "type: 'Bias' bias_param { filler { type: 'gaussian' std: 1 } }";
  for (const std::vector<Shape>& shapes :
       {std::vector<Shape>{{2, 3, 4}}, {{4, 3}}, {{2, 3, 4}, {3, 4}}, {{2, 3, 4}, {3}}}) {
    LayerTester layer(text, Runtime::Get().cpu(), TypeTriple::Equal(kDouble), shapes);
    layer.CheckGradient();
  }
}

TEST(BiasLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto make = [](const std::string& parameters, const std::vector<Shape>& shapes) {
    return LayerTester("type: 'Bias' bias_param { " + parameters + " }", Runtime::Get().cpu(),
                       TypeTriple::Equal(kFloat), shapes);
  };
  EXPECT_NO_THROW(make("", {{2, 3}}));
  EXPECT_THROW(make("num_axes: -2", {{2, 3}}), Error);
  EXPECT_THROW(make("num_axes: 2", {{2, 3}}), Error);
  EXPECT_THROW(make("axis: 2", {{2, 3}}), Error);
  EXPECT_THROW(make("", {{2, 3}, {2}}), Error);
  EXPECT_THROW(make("", {{2, 3}, {3, 1}}), Error);
  EXPECT_THROW(make("", {{2, 3}, {3}, {3}}), Error);
  LayerTester layer = make("", {{2, 3}});
  layer.bottom().Reshape({2, 4});
  EXPECT_THROW(layer.Forward(), Error);
}

}  // namespace
}  // namespace caffe

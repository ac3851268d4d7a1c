#include <gtest/gtest.h>

#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/in_place.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

// Slopes that halves hold exactly.
const std::vector<double> kSlopes{0.25, -0.5, 1.5, 0, 0.125};

class PReLULayerTest : public testing::TestWithParam<DeviceType> {};

void CheckAgainstFormula(const DeviceType& where, const Shape& shape, bool shared) {
  const auto [device, type] = where;
  LayerTester layer(shared ? "type: 'PReLU' prelu_param { channel_shared: true }" : "type: 'PReLU'",
                    device, TypeTriple::Equal(type), {shape});
  BlobBase& slope = *layer.layer().blobs()[0];
  EXPECT_EQ(slope.shape(), shared ? Shape{} : Shape{5});
  EXPECT_EQ(slope.DataAsDouble(), std::vector<double>(slope.count(), 0.25)) << "default filler";
  if (!shared) slope.SetData(kSlopes);
  const std::vector<double> a = slope.DataAsDouble();
  std::vector<double> x = layer.Bottom(0);
  x[0] = 0;
  layer.SetBottom(0, x);
  layer.Forward();
  layer.RandomTopDiff();
  // Gradients of parameters are added to the diffs.
  std::vector<double> slope_diff(a.size(), 0.5);
  slope.SetDiff(slope_diff);
  layer.Backward();
  const std::vector<double> d = layer.top().DiffAsDouble();
  const size_t inner = ShapeCount(shape, 2);
  std::vector<double> y(x.size()), x_diff(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = shared ? 0 : i / inner % 5;
    y[i] = x[i] > 0 ? x[i] : a[c] * x[i];
    x_diff[i] = x[i] > 0 ? d[i] : a[c] * d[i];
    if (x[i] <= 0) slope_diff[c] += x[i] * d[i];
  }
  ExpectNear(layer.Top(), y, Tolerance(type), "y");
  ExpectNear(layer.BottomDiff(0), x_diff, Tolerance(type), "dE/dx");
  // Sums are computed in float for every type of x.
  ExpectNear(slope.DiffAsDouble(), slope_diff, type == kDouble ? 1e-12 : 2e-5, "dE/da");

  slope.SetDiff(std::vector<double>(a.size(), 0.5));
  const InPlaceResult in_place = RunInPlace(layer);
  EXPECT_EQ(in_place.data, layer.Top());
  EXPECT_EQ(in_place.diff, layer.BottomDiff(0));
  ExpectNear(slope.DiffAsDouble(), slope_diff, type == kDouble ? 1e-12 : 2e-5, "dE/da in place");
}

TEST_P(PReLULayerTest, ForwardAndBackward) {
  for (bool shared : {false, true}) {
    CheckAgainstFormula(GetParam(), {3, 5, 7, 11}, shared);
    CheckAgainstFormula(GetParam(), {9, 5}, shared);
    CheckAgainstFormula(GetParam(), {2, 5, 300}, shared);
    CheckAgainstFormula(GetParam(), {6, 5, 61, 67}, shared);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PReLULayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(PReLULayerGradientTest, AgreesWithDifferences) {
  for (const char* shared : {"true", "false"}) {
    for (const Shape& shape : {Shape{2, 3, 4, 5}, Shape{4, 3}}) {
      LayerTester layer(Concat("type: 'PReLU' prelu_param { channel_shared: ", shared, " }"),
                        Runtime::Get().cpu(), TypeTriple::Equal(kDouble), {shape});
      layer.CheckGradient(1e-5, 1e-6, 0, 1e-3);
    }
  }
}

TEST(PReLULayerParameterTest, UsesTheFiller) {
  LayerTester layer("type: 'PReLU' prelu_param { filler { type: 'constant' value: 2 } }",
                    Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{1, 2}});
  layer.SetBottom(0, {-1, 1});
  layer.Forward();
  EXPECT_EQ(layer.Top(), (std::vector<double>{-2, 1}));
}

TEST(PReLULayerParameterTest, LeavesFrozenSlopesAlone) {
  LayerTester layer("type: 'PReLU'", Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{4, 3}});
  layer.layer().set_param_propagate_down(0, false);
  layer.layer().blobs()[0]->SetDiff({1, 2, 3});
  layer.Forward();
  layer.RandomTopDiff();
  layer.Backward();
  EXPECT_EQ(layer.layer().blobs()[0]->DiffAsDouble(), (std::vector<double>{1, 2, 3}));
}

TEST(PReLULayerShapeTest, RefusesWhatDoesNotFit) {
  const auto make = [](const std::string& text, const Shape& shape) {
    return LayerTester(text, Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {shape});
  };
  EXPECT_THROW(make("type: 'PReLU'", {4}), Error);
  EXPECT_THROW(make("type: 'PReLU' blobs { shape { dim: 2 } data: 1 data: 1 }", {4, 3}), Error);
  LayerTester layer = make("type: 'PReLU'", {4, 3});
  layer.bottom().Reshape({4, 2});
  EXPECT_THROW(layer.Forward(), Error) << "2 channels for 3 slopes";
}

}  // namespace
}  // namespace caffe

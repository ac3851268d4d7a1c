#include <gtest/gtest.h>

#include <cmath>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

std::string DropoutText(const std::string& more) {
  return "type: 'Dropout' dropout_param { " + more + " }";
}

class DropoutLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(DropoutLayerTest, KeepsAndScalesAShare) {
  const auto [device, type] = GetParam();
  for (const auto& [ratio, scale] : {std::pair(0.25, 4 / 3.0), std::pair(0.5, 2.0)}) {
    LayerTester layer(DropoutText(Concat("dropout_ratio: ", ratio)), device,
                      TypeTriple::Equal(type), {{10007}});
    layer.Forward();
    const std::vector<double> x = layer.Bottom(0), y = layer.Top();
    std::vector<double> mask(x.size()), expected(x.size());
    double kept = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      mask[i] = y[i] != 0 ? scale : 0;
      expected[i] = x[i] * mask[i];
      kept += y[i] != 0;
    }
    ExpectNear(y, expected, Tolerance(type), "y");
    EXPECT_NEAR(kept / x.size(), 1 - ratio, 0.02);
    layer.RandomTopDiff();
    layer.Backward();
    std::vector<double> x_diff = layer.top().DiffAsDouble();
    for (size_t i = 0; i < x.size(); ++i) x_diff[i] *= mask[i];
    ExpectNear(layer.BottomDiff(0), x_diff, Tolerance(type), "the same mask in dE/dx");
  }
}

// The elements that were kept, as one character per element.
std::string Mask(LayerTester& layer) {
  layer.Forward();
  std::string mask;
  for (double y : layer.Top()) mask += y != 0 ? '1' : '0';
  return mask;
}

TEST_P(DropoutLayerTest, OneSeedGivesOneMaskEverywhere) {
  const auto [device, type] = GetParam();
  const auto make = [](Device* on, DataType as, uint64_t seed) {
    return LayerTester(DropoutText(""), on, TypeTriple::Equal(as), {{1001}}, 1, seed);
  };
  LayerTester here = make(device, type, 5), reference = make(Runtime::Get().cpu(), kFloat, 5);
  const std::string first = Mask(here);
  EXPECT_EQ(first, Mask(reference));
  const std::string second = Mask(here);
  EXPECT_EQ(second, Mask(reference));
  EXPECT_NE(second, first) << "every step has a mask of its own";
  LayerTester other = make(device, type, 6);
  EXPECT_NE(Mask(other), first);
}

TEST_P(DropoutLayerTest, TestPhase) {
  const auto [device, type] = GetParam();
  LayerTester same("phase: TEST " + DropoutText("dropout_ratio: 0.75"), device,
                   TypeTriple::Equal(type), {{100}});
  same.Forward();
  EXPECT_EQ(same.Top(), same.Bottom(0));
  LayerTester scaled("phase: TEST " + DropoutText("dropout_ratio: 0.75 scale_train: false"), device,
                     TypeTriple::Equal(type), {{100}});
  scaled.Forward();
  std::vector<double> expected = scaled.Bottom(0);
  for (double& value : expected) value *= 0.25;
  ExpectNear(scaled.Top(), expected, Tolerance(type), "y");
}

TEST_P(DropoutLayerTest, InPlace) {
  const auto [device, type] = GetParam();
  LayerTester apart(DropoutText(""), device, TypeTriple::Equal(type), {{1001}});
  apart.Forward();
  apart.layer().SetRunState(apart.layer().context().seed, {0});
  const BlobVec blob{&apart.bottom()};
  apart.layer().Forward(blob, blob);
  EXPECT_EQ(apart.Bottom(0), apart.Top());
}

INSTANTIATE_TEST_SUITE_P(All, DropoutLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(DropoutLayerGradientTest, AgreesWithDifferences) {
  for (const char* phase : {"TRAIN", "TEST"}) {
    LayerTester layer(Concat("phase: ", phase, " ", DropoutText("scale_train: false")),
                      Runtime::Get().cpu(), TypeTriple::Equal(kDouble), {{3, 7}});
    layer.CheckGradient();
  }
}

TEST(DropoutLayerStateTest, CountsItsForwards) {
  LayerParameter parameter;
  parameter.set_name("drop");
  parameter.set_type("Dropout");
  LayerContext context;
  context.device = Runtime::Get().cpu();
  const auto layer = LayerRegistry::Get().Create(parameter, context);
  Blob<float> x(context.device, {1000}), y(context.device, {0});
  x.SetData(std::vector<double>(1000, 1));
  layer->SetUp(LayerRegistry::Get().Traits("Dropout"), {&x}, {&y});
  layer->Forward({&x}, {&y});
  const std::vector<double> first = y.DataAsDouble();
  layer->Forward({&x}, {&y});
  const std::vector<double> second = y.DataAsDouble();
  EXPECT_NE(second, first);
  y.SetDiff(std::vector<double>(1000, 1));
  layer->Backward({&y}, {true}, {&x});
  EXPECT_EQ(x.DiffAsDouble(), second);
  EXPECT_EQ(layer->RunState(), std::vector<uint64_t>{2});
  layer->SetRunState(context.seed, {0});
  layer->Forward({&x}, {&y});
  EXPECT_EQ(y.DataAsDouble(), first);
}

TEST(DropoutLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto make = [](const std::string& text, DataType type = kFloat) {
    LayerTester(text, Runtime::Get().cpu(), TypeTriple::Equal(type), {{4}});
  };
  EXPECT_NO_THROW(make(DropoutText("dropout_ratio: 0")));
  EXPECT_THROW(make(DropoutText("dropout_ratio: 1")), Error);
  EXPECT_THROW(make(DropoutText("dropout_ratio: -0.1")), Error);
  EXPECT_THROW(make(DropoutText(""), kQuant8), Error);
  EXPECT_NO_THROW(make("phase: TEST " + DropoutText(""), kQuant8));
}

}  // namespace
}  // namespace caffe

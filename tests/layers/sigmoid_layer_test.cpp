#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

class SigmoidLayerTest : public testing::TestWithParam<DeviceType> {};

// Inputs from -8 to 8, so that both tails are there.
LayerTester MakeSigmoid(Device* device, DataType type) {
  LayerTester layer("type: 'Sigmoid'", device, TypeTriple::Equal(type), {{3, 5, 7, 11}});
  std::vector<double> x = layer.Bottom(0);
  for (double& value : x) value *= 8;
  layer.SetBottom(0, x);
  return layer;
}

TEST_P(SigmoidLayerTest, Forward) {
  const auto [device, type] = GetParam();
  LayerTester layer = MakeSigmoid(device, type);
  layer.Forward();
  std::vector<double> expected = layer.Bottom(0);
  for (double& x : expected) x = 0.5 * std::tanh(0.5 * x) + 0.5;
  ExpectNear(layer.Top(), expected, Tolerance(type), "y");
}

TEST_P(SigmoidLayerTest, Backward) {
  const auto [device, type] = GetParam();
  LayerTester layer = MakeSigmoid(device, type);
  layer.Forward();
  layer.RandomTopDiff();
  layer.Backward();
  const std::vector<double> x = layer.Bottom(0);
  std::vector<double> expected = layer.top().DiffAsDouble();
  for (size_t i = 0; i < x.size(); ++i) {
    expected[i] /= (1 + std::exp(x[i])) * (1 + std::exp(-x[i]));
  }
  ExpectNear(layer.BottomDiff(0), expected, Tolerance(type), "dE/dx");
}

TEST_P(SigmoidLayerTest, LargeValues) {
  const auto [device, type] = GetParam();
  LayerTester layer("type: 'Sigmoid'", device, TypeTriple::Equal(type), {{6}});
  const double infinity = std::numeric_limits<double>::infinity();
  layer.SetBottom(0, {-infinity, -30000, 0, 30000, infinity, std::nan("")});
  layer.Forward();
  std::vector<double> y = layer.Top();
  EXPECT_TRUE(std::isnan(y.back()));
  y.pop_back();
  EXPECT_EQ(y, (std::vector<double>{0, 0, 0.5, 1, 1}));
}

TEST_P(SigmoidLayerTest, InPlace) {
  const auto [device, type] = GetParam();
  LayerTester apart = MakeSigmoid(device, type), same = MakeSigmoid(device, type);
  apart.Forward();
  apart.RandomTopDiff();
  apart.Backward();
  const BlobVec blob{&same.bottom()};
  same.layer().Forward(blob, blob);
  same.bottom().SetDiff(apart.top().DiffAsDouble());
  same.layer().Backward(blob, {true}, blob);
  EXPECT_EQ(same.Bottom(0), apart.Top());
  EXPECT_EQ(same.BottomDiff(0), apart.BottomDiff(0));
}

INSTANTIATE_TEST_SUITE_P(All, SigmoidLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(SigmoidLayerBitsTest, AreTheSameOnEveryDevice) {
  for (const auto& [device, type] : DevicesAndTypes({kFloat, kHalf, kBfloat16})) {
    LayerTester here = MakeSigmoid(device, type), there = MakeSigmoid(Runtime::Get().cpu(), type);
    for (LayerTester* layer : {&here, &there}) {
      layer->Forward();
      layer->RandomTopDiff();
      layer->Backward();
    }
    EXPECT_EQ(here.Top(), there.Top()) << device->info().id << " " << type.name();
    EXPECT_EQ(here.BottomDiff(0), there.BottomDiff(0)) << device->info().id << " " << type.name();
  }
}

TEST(SigmoidLayerGradientTest, AgreesWithDifferences) {
  LayerTester layer = MakeSigmoid(Runtime::Get().cpu(), kDouble);
  layer.CheckGradient();
}

}  // namespace
}  // namespace caffe

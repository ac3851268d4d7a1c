#include <gtest/gtest.h>

#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/in_place.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

std::vector<double> Range(double low, double high, int count) {
  std::vector<double> values(count);
  for (int i = 0; i < count; ++i) {
    values[i] = static_cast<float>(low + (high - low) * i / (count - 1));
  }
  return values;
}

class ELULayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(ELULayerTest, ForwardAndBackward) {
  const auto [device, type] = GetParam();
  for (double alpha : {1.0, 0.5, 0.0, -0.25}) {
    LayerTester layer(Concat("type: 'ELU' elu_param { alpha: ", alpha, " }"), device,
                      TypeTriple::Equal(type), {{2, 3, 5, 7}});
    std::vector<double> x = layer.Bottom(0);
    for (double& value : x) value *= 4;
    x[0] = 0;
    x[1] = -1000;
    layer.SetBottom(0, x);
    layer.Forward();
    std::vector<double> y(x.size());
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] > 0 ? x[i] : alpha * std::expm1(x[i]);
    ExpectNear(layer.Top(), y, Tolerance(type), "y");
    layer.RandomTopDiff();
    layer.Backward();
    std::vector<double> expected = layer.top().DiffAsDouble();
    for (size_t i = 0; i < x.size(); ++i) {
      if (x[i] <= 0) expected[i] *= alpha * std::exp(x[i]);
    }
    ExpectNear(layer.BottomDiff(0), expected, Tolerance(type), "dE/dx");

    const InPlaceResult in_place = RunInPlace(layer);
    EXPECT_EQ(in_place.data, layer.Top());
    EXPECT_EQ(in_place.diff, layer.BottomDiff(0)) << "alpha " << alpha;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ELULayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

// Float results are compared bit for bit: nothing of a vendor's library takes part.
TEST(ELULayerBitsTest, AreTheSameOnEveryDevice) {
  const std::vector<double> x = Range(-20, 1, 100003);
  std::vector<double> expected;
  for (Device* device : TestDevices()) {
    LayerTester layer("type: 'ELU'", device, TypeTriple::Equal(kFloat), {{100003}});
    layer.SetBottom(0, x);
    layer.Forward();
    if (expected.empty()) expected = layer.Top();
    EXPECT_EQ(layer.Top(), expected) << device->info().id;
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const double y = x[i] > 0 ? x[i] : std::expm1(x[i]);
    ASSERT_NEAR(expected[i], y, 2e-7 * std::abs(y)) << x[i];
  }
}

TEST(ELULayerGradientTest, AgreesWithDifferences) {
  for (const char* alpha : {"1", "0.3"}) {
    LayerTester layer(Concat("type: 'ELU' elu_param { alpha: ", alpha, " }"), Runtime::Get().cpu(),
                      TypeTriple::Equal(kDouble), {{2, 3, 4, 5}});
    layer.CheckGradient(1e-5, 1e-6, 0, 1e-3);
  }
}

TEST(ELULayerShapeTest, RefusesWhatDoesNotFit) {
  EXPECT_THROW(
      LayerTester("type: 'ELU'", Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{2}, {2}}),
      Error);
  // In place with a negative alpha the gradient needs what the forward kept.
  LayerTester layer("type: 'ELU' elu_param { alpha: -1 }", Runtime::Get().cpu(),
                    TypeTriple::Equal(kFloat), {{2}});
  const BlobVec blob{&layer.bottom()};
  layer.bottom().SetDiff({1, 1});
  EXPECT_THROW(layer.layer().Backward(blob, {true}, blob), Error);
}

}  // namespace
}  // namespace caffe

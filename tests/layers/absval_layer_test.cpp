#include <gtest/gtest.h>

#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

class AbsValLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(AbsValLayerTest, ForwardAndBackward) {
  const auto [device, type] = GetParam();
  LayerTester layer("type: 'AbsVal'", device, TypeTriple::Equal(type), {{2, 3, 5, 7}});
  std::vector<double> x = layer.Bottom(0);
  x[0] = 0;
  x[1] = -0.0;
  layer.SetBottom(0, x);
  layer.Forward();
  layer.RandomTopDiff();
  layer.Backward();
  std::vector<double> y(x.size()), expected = layer.top().DiffAsDouble();
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = std::abs(x[i]);
    expected[i] *= x[i] > 0 ? 1 : x[i] < 0 ? -1 : 0;
  }
  EXPECT_EQ(layer.Top(), y);
  EXPECT_FALSE(std::signbit(layer.Top()[1])) << "|-0| is 0";
  EXPECT_EQ(layer.BottomDiff(0), expected);
}

INSTANTIATE_TEST_SUITE_P(All, AbsValLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(AbsValLayerGradientTest, AgreesWithDifferences) {
  LayerTester layer("type: 'AbsVal'", Runtime::Get().cpu(), TypeTriple::Equal(kDouble),
                    {{2, 3, 4, 5}});
  layer.CheckGradient(1e-5, 1e-6, 0, 1e-3);
}

TEST(AbsValLayerShapeTest, RefusesToWorkInPlace) {
  LayerTester layer("type: 'AbsVal'", Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{2}});
  const BlobVec blob{&layer.bottom()};
  EXPECT_THROW(layer.layer().LayerSetUp(blob, blob), Error);
  EXPECT_FALSE(TraitsOf("AbsVal").in_place);
}

}  // namespace
}  // namespace caffe

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

std::vector<double> SoftmaxOf(const std::vector<double>& x, int64_t channels, int64_t inner) {
  std::vector<double> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t first = i / (channels * inner) * (channels * inner) + i % inner;
    double sum = 0;
    for (int64_t c = 0; c < channels; ++c) sum += std::exp(x[first + c * inner] - x[i]);
    y[i] = 1 / sum;
  }
  return y;
}

class SoftmaxLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(SoftmaxLayerTest, Forward) {
  const auto [device, type] = GetParam();
  LayerTester rows("type: 'Softmax'", device, TypeTriple::Equal(type), {{5, 37}});
  rows.Forward();
  ExpectNear(rows.Top(), SoftmaxOf(rows.Bottom(0), 37, 1), Tolerance(type), "rows");
  LayerTester wide("type: 'Softmax'", device, TypeTriple::Equal(type), {{3, 301}});
  wide.Forward();
  ExpectNear(wide.Top(), SoftmaxOf(wide.Bottom(0), 301, 1), Tolerance(type), "wide rows");
  LayerTester planes("type: 'Softmax'", device, TypeTriple::Equal(type), {{2, 10, 3, 5}});
  planes.Forward();
  ExpectNear(planes.Top(), SoftmaxOf(planes.Bottom(0), 10, 15), Tolerance(type), "planes");
  LayerTester first("type: 'Softmax' softmax_param { axis: 0 }", device, TypeTriple::Equal(type),
                    {{4, 6}});
  first.Forward();
  ExpectNear(first.Top(), SoftmaxOf(first.Bottom(0), 4, 6), Tolerance(type), "axis 0");
}

TEST_P(SoftmaxLayerTest, LargeValuesDoNotOverflow) {
  const auto [device, type] = GetParam();
  LayerTester layer("type: 'Softmax'", device, TypeTriple::Equal(type), {{1, 3}});
  layer.SetBottom(0, {10000, 10000, -10000});
  layer.Forward();
  ExpectNear(layer.Top(), {0.5, 0.5, 0}, Tolerance(type), "y");
}

TEST_P(SoftmaxLayerTest, Backward) {
  const auto [device, type] = GetParam();
  for (const Shape& shape : {Shape{5, 37}, Shape{2, 10, 3, 5}}) {
    LayerTester layer("type: 'Softmax'", device, TypeTriple::Equal(type), {shape});
    layer.Forward();
    layer.RandomTopDiff();
    layer.Backward();
    const int64_t channels = shape[1], inner = ShapeCount(shape, 2);
    const std::vector<double> y = layer.Top(), d = layer.top().DiffAsDouble();
    std::vector<double> expected(y.size());
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t first = i / (channels * inner) * (channels * inner) + i % inner;
      double dot = 0;
      for (int64_t c = 0; c < channels; ++c) dot += d[first + c * inner] * y[first + c * inner];
      expected[i] = y[i] * (d[i] - dot);
    }
    ExpectNear(layer.BottomDiff(0), expected, Tolerance(type), "dE/dx");
  }
}

INSTANTIATE_TEST_SUITE_P(All, SoftmaxLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(SoftmaxLayerGradientTest, AgreesWithDifferences) {
  for (const Shape& shape : {Shape{2, 5}, Shape{2, 3, 2, 2}}) {
    LayerTester layer("type: 'Softmax'", Runtime::Get().cpu(), TypeTriple::Equal(kDouble), {shape});
    layer.CheckGradient();
  }
}

}  // namespace
}  // namespace caffe

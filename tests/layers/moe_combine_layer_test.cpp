#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

// Two experts per item; item 1 has only one, since the other is full. No item uses row 5.
const std::vector<double> kRows{0, 4, 3, 1, 5, -1}, kSlots{0, 3, -1, 2, 1, 4};

LayerTester Combine(Device* device, DataType type, int64_t columns) {
  LayerTester layer("type: 'MOECombine'", device, TypeTriple::Equal(type),
                    {{6, columns}, {3, 2}, {3, 2}, {6}});
  layer.SetBottom(2, kSlots);
  layer.SetBottom(3, kRows);
  return layer;
}

class MOECombineLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(MOECombineLayerTest, ForwardAndBackward) {
  const auto [device, type] = GetParam();
  for (const int64_t columns : {5, 67}) {
    LayerTester layer = Combine(device, type, columns);
    std::vector<double> x = layer.Bottom(0);
    x[5 * columns] = std::numeric_limits<double>::quiet_NaN();  // of the row that no item uses
    layer.SetBottom(0, x);
    const std::vector<double> w = layer.Bottom(1);
    layer.Forward();
    layer.RandomTopDiff();
    layer.Backward();
    const std::vector<double> d = layer.top().DiffAsDouble();
    std::vector<double> y(3 * columns), x_diff(6 * columns), w_diff(6);
    for (int64_t pair = 0; pair < 6; ++pair) {
      if (kSlots[pair] < 0) continue;
      const int64_t n = pair / 2 * columns, row = static_cast<int64_t>(kSlots[pair]) * columns;
      for (int64_t c = 0; c < columns; ++c) {
        y[n + c] += w[pair] * x[row + c];
        x_diff[row + c] = w[pair] * d[n + c];
        w_diff[pair] += d[n + c] * x[row + c];
      }
    }
    ExpectNear(layer.Top(), y, Tolerance(type), "y");
    ExpectNear(layer.BottomDiff(0), x_diff, Tolerance(type), "dE/dx");
    ExpectNear(layer.BottomDiff(1), w_diff, 4 * Tolerance(type), "dE/dweights");
  }
}

INSTANTIATE_TEST_SUITE_P(All, MOECombineLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(MOECombineGradientTest, AgreesWithDifferences) {
  LayerTester layer = Combine(Runtime::Get().cpu(), kDouble, 3);
  layer.CheckGradient();
}

TEST(MOECombineErrorTest, ShapesOfAnotherRouting) {
  const auto make = [](const Shape& x, const Shape& weights) {
    LayerTester("type: 'MOECombine'", Runtime::Get().cpu(), TypeTriple::Equal(kFloat),
                {x, weights, {3, 2}, {6}});
  };
  EXPECT_NO_THROW(make({6, 2}, {3, 2}));
  EXPECT_THROW(make({5, 2}, {3, 2}), Error);
  EXPECT_THROW(make({6, 2}, {2, 3}), Error);
}

}  // namespace
}  // namespace caffe

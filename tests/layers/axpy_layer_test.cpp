#include <gtest/gtest.h>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

LayerTester MakeAxpy(const Shape& a, const Shape& x, Device* device = Runtime::Get().cpu(),
                     DataType type = kFloat) {
  return LayerTester("type: 'Axpy'", device, TypeTriple::Equal(type), {a, x, x});
}

class AxpyLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(AxpyLayerTest, ByHand) {
  const auto [device, type] = GetParam();
  LayerTester layer = MakeAxpy({1, 2}, {1, 2, 2}, device, type);
  layer.SetBottom(0, {2, -1});
  layer.SetBottom(1, {1, 2, 3, 4});
  layer.SetBottom(2, {10, 20, 30, 40});
  layer.Forward();
  EXPECT_EQ(layer.Top(), (std::vector<double>{12, 24, 27, 36}));
  layer.SetTopDiff(0, {1, 2, 3, -1});
  layer.Backward();
  EXPECT_EQ(layer.BottomDiff(0), (std::vector<double>{5, 5}));
  EXPECT_EQ(layer.BottomDiff(1), (std::vector<double>{2, 4, -3, 1}));
  EXPECT_EQ(layer.BottomDiff(2), (std::vector<double>{1, 2, 3, -1}));
}

TEST_P(AxpyLayerTest, ForwardAndBackward) {
  const auto [device, type] = GetParam();
  struct Case {
    Shape a, x;
  };
  for (const Case& c : {Case{{2, 3}, {2, 3, 5, 7}},
                        {{2, 3, 1, 1}, {2, 3, 5, 7}},
                        {{4, 5}, {4, 5}},
                        {{1, 2, 1, 1, 1}, {1, 2, 3, 4, 5}},
                        {{2, 37, 1, 1}, {2, 37, 31, 1}},
                        {{0, 3}, {0, 3, 2, 2}}}) {
    LayerTester layer = MakeAxpy(c.a, c.x, device, type);
    layer.Forward();
    ASSERT_EQ(layer.top().shape(), c.x);
    layer.RandomTopDiff();
    layer.Backward();
    const std::vector<double> a = layer.Bottom(0), x = layer.Bottom(1), b = layer.Bottom(2);
    const std::vector<double> y_diff = layer.top().DiffAsDouble();
    const size_t plane = a.empty() ? 1 : x.size() / a.size();
    std::vector<double> y(x.size()), a_diff(a.size()), x_diff(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      y[i] = a[i / plane] * x[i] + b[i];
      a_diff[i / plane] += x[i] * y_diff[i];
      x_diff[i] = a[i / plane] * y_diff[i];
    }
    ExpectNear(layer.Top(), y, Tolerance(type), "y");
    ExpectNear(layer.BottomDiff(0), a_diff, Tolerance(type), "dE/da");
    ExpectNear(layer.BottomDiff(1), x_diff, Tolerance(type), "dE/dx");
    EXPECT_EQ(layer.BottomDiff(2), y_diff);
  }
}

INSTANTIATE_TEST_SUITE_P(All, AxpyLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

// y and the gradient of x: sums take no part.
TEST(AxpyLayerBitsTest, AreTheSameOnEveryDevice) {
  for (const auto& [device, type] : DevicesAndTypes({kFloat, kHalf, kBfloat16})) {
    LayerTester here = MakeAxpy({2, 3}, {2, 3, 5, 7}, device, type);
    LayerTester there = MakeAxpy({2, 3}, {2, 3, 5, 7}, Runtime::Get().cpu(), type);
    for (LayerTester* layer : {&here, &there}) {
      layer->Forward();
      layer->RandomTopDiff();
      layer->Backward();
    }
    EXPECT_EQ(here.Top(), there.Top()) << device->info().id << " " << type.name();
    EXPECT_EQ(here.BottomDiff(1), there.BottomDiff(1)) << device->info().id << " " << type.name();
  }
}

TEST(AxpyLayerGradientTest, AgreesWithDifferences) {
  MakeAxpy({2, 3, 1, 1}, {2, 3, 2, 2}, Runtime::Get().cpu(), kDouble).CheckGradient();
  MakeAxpy({3, 2}, {3, 2}, Runtime::Get().cpu(), kDouble).CheckGradient();
}

TEST(AxpyLayerErrorsTest, NameTheValues) {
  const auto error = [](const std::vector<Shape>& shapes) {
    return ErrorOf([&] {
      LayerTester("type: 'Axpy'", Runtime::Get().cpu(), TypeTriple::Equal(kFloat), shapes);
    });
  };
  EXPECT_TRUE(Holds(error({{2, 4}, {2, 3, 5, 5}, {2, 3, 5, 5}}),
                    "tested (Axpy): bottom 0 must have one element for each of the 2 x 3 channels "
                    "of bottom 1, as 2 3 or 2 3 1 1"));
  EXPECT_TRUE(Holds(error({{2, 3, 5, 5}, {2, 3, 5, 5}, {2, 3, 5, 5}}), "bottom 0 must have one"));
  EXPECT_TRUE(
      Holds(error({{2, 3}, {2, 3, 5}, {2, 3, 4}}), "bottom 2 must have the shape of bottom 1"));
  EXPECT_TRUE(Holds(error({{2}, {2}, {2}}), "bottom 1 must have at least 2 axes"));
  EXPECT_TRUE(Holds(error({{2, 3}, {2, 3}}), "takes 3 bottom blob(s), but the net gives 2"));
}

}  // namespace
}  // namespace caffe

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

LayerTester MakeArgMax(const std::string& more, const Shape& shape,
                       Device* device = Runtime::Get().cpu(), DataType type = kFloat) {
  return LayerTester("type: 'ArgMax' argmax_param { " + more + " }", device,
                     TypeTriple::Equal(type), {shape});
}

struct Found {
  double value;
  int64_t place;
};

// The elements of a line, largest first, of equal ones the later first.
std::vector<Found> Sorted(const std::vector<double>& x, int64_t from, int64_t count, int64_t step) {
  std::vector<Found> all;
  for (int64_t i = 0; i < count; ++i) all.push_back({x[from + i * step], i});
  std::sort(all.begin(), all.end(), [](const Found& a, const Found& b) {
    return a.value != b.value ? a.value > b.value : a.place > b.place;
  });
  return all;
}

class ArgMaxLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(ArgMaxLayerTest, OverItems) {
  const auto [device, type] = GetParam();
  for (bool values : {false, true}) {
    // More elements than numbers in (-1, 1) of bfloat16 steps: there are ties.
    LayerTester layer =
        MakeArgMax(Concat("top_k: 3 out_max_val: ", values), {5, 10, 6, 9}, device, type);
    layer.Forward();
    ASSERT_EQ(layer.top().shape(), Shape({5, values ? 2 : 1, 3, 1}));
    ASSERT_EQ(layer.top().type(), kFloat);
    std::vector<double> expected;
    for (int64_t n = 0; n < 5; ++n) {
      const std::vector<Found> best = Sorted(layer.Bottom(0), n * 540, 540, 1);
      for (int k = 0; k < 3; ++k) expected.push_back(static_cast<double>(best[k].place));
      for (int k = 0; values && k < 3; ++k) expected.push_back(best[k].value);
    }
    EXPECT_EQ(layer.Top(), expected);
  }
}

TEST_P(ArgMaxLayerTest, AlongAnAxis) {
  const auto [device, type] = GetParam();
  for (bool values : {false, true}) {
    for (int axis : {0, 1, 2}) {
      const Shape shape{4, 5, 6};
      LayerTester layer = MakeArgMax(Concat("top_k: 2 axis: ", axis, " out_max_val: ", values),
                                     shape, device, type);
      layer.Forward();
      Shape top = shape;
      top[axis] = 2;
      ASSERT_EQ(layer.top().shape(), top);
      const int64_t outer = layer.bottom().count(0, axis), inner = layer.bottom().count(axis + 1);
      std::vector<double> expected(layer.top().count());
      for (int64_t o = 0; o < outer; ++o) {
        for (int64_t i = 0; i < inner; ++i) {
          const auto best =
              Sorted(layer.Bottom(0), o * shape[axis] * inner + i, shape[axis], inner);
          for (int k = 0; k < 2; ++k) {
            expected[(o * 2 + k) * inner + i] =
                values ? best[k].value : static_cast<double>(best[k].place);
          }
        }
      }
      EXPECT_EQ(layer.Top(), expected);
    }
  }
}

TEST_P(ArgMaxLayerTest, TiesInfinityAndNotANumber) {
  const auto [device, type] = GetParam();
  const double infinity = std::numeric_limits<double>::infinity();
  LayerTester layer = MakeArgMax("top_k: 6", {1, 6}, device, type);
  layer.SetBottom(0, {std::nan(""), 1, -infinity, 1, infinity, std::nan("")});
  layer.Forward();
  EXPECT_EQ(layer.Top(), std::vector<double>({4, 3, 1, 2, 5, 0}));
}

// Half cannot represent indices beyond 2^11 exactly.
TEST_P(ArgMaxLayerTest, FarPlacesAreExact) {
  const auto [device, type] = GetParam();
  LayerTester layer = MakeArgMax("", {1, 5000}, device, type);
  std::vector<double> x(5000, 0);
  x[4097] = 1;
  layer.SetBottom(0, x);
  layer.Forward();
  EXPECT_EQ(layer.Top(), std::vector<double>({4097}));
}

INSTANTIATE_TEST_SUITE_P(All, ArgMaxLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(ArgMaxLayerShapeTest, HasAtLeastThreeAxesWithoutAnAxis) {
  EXPECT_EQ(MakeArgMax("", {4, 7}).top().shape(), Shape({4, 1, 1}));
  EXPECT_EQ(MakeArgMax("", {4, 7, 2, 2, 2}).top().shape(), Shape({4, 1, 1, 1, 1}));
  EXPECT_EQ(MakeArgMax("axis: -1", {4, 7}).top().shape(), Shape({4, 1}));
}

TEST(ArgMaxLayerErrorsTest, NameTheValues) {
  const auto error = [](const std::string& more) {
    return ErrorOf([&] { MakeArgMax(more, {2, 3}); });
  };
  EXPECT_TRUE(Holds(error("top_k: 0"), "tested (ArgMax): top_k must be positive"));
  EXPECT_TRUE(Holds(error("top_k: 4"), "top_k 4 exceeds the 3 elements"));
  EXPECT_TRUE(Holds(error("axis: 0 top_k: 3"), "top_k 3 exceeds the 2 elements"));
  EXPECT_TRUE(Holds(error("axis: 2"), "axis 2 is out of range"));
  LayerTester layer = MakeArgMax("", {2, 3});
  BlobVec bottoms{&layer.bottom()}, tops{&layer.top()};
  EXPECT_THROW(layer.layer().Backward(tops, {true}, bottoms), Error);
}

}  // namespace
}  // namespace caffe

#include <gtest/gtest.h>

#include <cstring>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

LayerTester MakeSlice(const std::string& more, const Shape& shape, int tops,
                      Device* device = Runtime::Get().cpu(), DataType type = kFloat) {
  return LayerTester("type: 'Slice' slice_param { " + more + " }", device, TypeTriple::Equal(type),
                     {shape}, tops);
}

// Places begin to end along the middle of x, which is [outer, extent, inner].
std::vector<double> Part(const std::vector<double>& x, int64_t outer, int64_t extent, int64_t begin,
                         int64_t end) {
  const int64_t inner = static_cast<int64_t>(x.size()) / outer / extent;
  std::vector<double> part;
  for (int64_t o = 0; o < outer; ++o) {
    const auto row = x.begin() + o * extent * inner;
    part.insert(part.end(), row + begin * inner, row + end * inner);
  }
  return part;
}

class SliceLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(SliceLayerTest, CutsAlongEveryAxis) {
  const auto [device, type] = GetParam();
  const Shape shape{6, 7, 5};
  for (int axis = 0; axis < 3; ++axis) {
    LayerTester slice =
        MakeSlice(Concat("slice_point: 1 slice_point: 4 axis: ", axis), shape, 3, device, type);
    slice.Forward();
    const int64_t outer = slice.bottom().count(0, axis), extent = shape[axis];
    const int64_t points[] = {0, 1, 4, extent};
    for (int i = 0; i < 3; ++i) {
      Shape part = shape;
      part[axis] = points[i + 1] - points[i];
      ASSERT_EQ(slice.top(i).shape(), part);
      EXPECT_EQ(slice.Top(i), Part(slice.Bottom(0), outer, extent, points[i], points[i + 1]));
      slice.RandomTopDiff(i);
    }
    slice.Backward();
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(slice.top(i).DiffAsDouble(),
                Part(slice.BottomDiff(0), outer, extent, points[i], points[i + 1]));
    }
  }
}

TEST_P(SliceLayerTest, OneTopIsShared) {
  const auto [device, type] = GetParam();
  LayerTester slice = MakeSlice("", {2, 3}, 1, device, type);
  slice.bottom().device_data();
  device->ResetCounters();
  slice.Forward();
  EXPECT_EQ(device->counters().launches + device->counters().copies, 0);
  EXPECT_EQ(slice.Top(), slice.Bottom(0));
  slice.RandomTopDiff();
  slice.Backward();
  EXPECT_EQ(slice.BottomDiff(0), slice.top().DiffAsDouble());
}

INSTANTIATE_TEST_SUITE_P(All, SliceLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(SliceLayerShapeTest, AxisItsOlderFormAndEqualParts) {
  EXPECT_EQ(MakeSlice("", {2, 6, 4}, 3).top(2).shape(), Shape({2, 2, 4}));
  EXPECT_EQ(MakeSlice("axis: -1", {2, 6, 4}, 2).top(1).shape(), Shape({2, 6, 2}));
  EXPECT_EQ(MakeSlice("slice_dim: 0", {2, 6, 4}, 2).top(0).shape(), Shape({1, 6, 4}));
}

TEST(SliceLayerErrorsTest, NameTheValues) {
  const auto error = [](const std::string& more, int tops) {
    return ErrorOf([&] { MakeSlice(more, {2, 5}, tops); });
  };
  EXPECT_TRUE(Holds(error("", 2), "tested (Slice): an extent of 5 cannot be cut into 2 equal"));
  EXPECT_TRUE(Holds(error("slice_point: 1", 3), "3 tops need 2 slice_point, but there are 1"));
  EXPECT_TRUE(
      Holds(error("slice_point: 3 slice_point: 3", 3), "slice_point 3 is not greater than"));
  EXPECT_TRUE(Holds(error("slice_point: 0", 2), "slice_point 0 is not greater than 0"));
  EXPECT_TRUE(Holds(error("slice_point: 5", 2), "slice_point 5 is not inside an extent of 5"));
  EXPECT_TRUE(Holds(error("slice_dim: 2", 2), "slice_dim 2 is not an axis"));
  EXPECT_TRUE(Holds(error("axis: 0 slice_dim: 0", 2), "either axis or slice_dim"));
  EXPECT_TRUE(Holds(error("axis: 2", 2), "axis 2 is out of range"));
}

TEST(SliceLayerGradientTest, AgreesWithDifferences) {
  MakeSlice("slice_point: 1", {2, 4, 3}, 2, Runtime::Get().cpu(), kDouble).CheckGradient();
}

class QuantizedSliceLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(QuantizedSliceLayerTest, CarriesCodesAndRange) {
  const auto [device, type] = GetParam();
  LayerTester slice = MakeSlice("slice_point: 1", {2, 3}, 2, device, type);
  const int last = type.info().code_max;
  const std::vector<int> codes{0, 1, last, 77, last - 1, 128};
  char* data = static_cast<char*>(slice.bottom().mutable_host_data());
  for (size_t i = 0; i < codes.size(); ++i) {
    std::memcpy(data + i * type.bytes(), &codes[i], type.bytes());  // little endian
  }
  slice.bottom().set_range({0.3, 99, true});
  slice.Forward();
  const auto code = [&, type = type](int top, int i) {
    int value = 0;
    std::memcpy(&value, static_cast<const char*>(slice.top(top).host_data()) + i * type.bytes(),
                type.bytes());
    return value;
  };
  EXPECT_EQ(slice.top(1).range().scale, 0.3);
  EXPECT_EQ(slice.top(1).range().zero, 99);
  EXPECT_EQ(code(0, 0), 0);
  EXPECT_EQ(code(0, 1), 77);
  EXPECT_EQ(code(1, 0), 1);
  EXPECT_EQ(code(1, 1), last);
  EXPECT_EQ(code(1, 2), last - 1);
  EXPECT_EQ(code(1, 3), 128);
  EXPECT_THROW(slice.Backward(), Error);
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedSliceLayerTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

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

LayerTester MakeConcat(const std::string& more, const std::vector<Shape>& shapes,
                       Device* device = Runtime::Get().cpu(), DataType type = kFloat) {
  return LayerTester("type: 'Concat' concat_param { " + more + " }", device,
                     TypeTriple::Equal(type), shapes);
}

// Arrays [outer, extent, inner] joined along the middle.
std::vector<double> Joined(const std::vector<std::vector<double>>& parts, int64_t outer) {
  std::vector<double> all;
  for (int64_t o = 0; o < outer; ++o) {
    for (const auto& part : parts) {
      const size_t row = part.size() / outer;
      all.insert(all.end(), part.begin() + o * row, part.begin() + (o + 1) * row);
    }
  }
  return all;
}

class ConcatLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(ConcatLayerTest, JoinsAlongEveryAxis) {
  const auto [device, type] = GetParam();
  for (int axis = 0; axis < 3; ++axis) {
    std::vector<Shape> shapes(3, {4, 3, 5});
    shapes[1][axis] = 7;
    shapes[2][axis] = 1;
    LayerTester concat = MakeConcat(Concat("axis: ", axis), shapes, device, type);
    concat.Forward();
    Shape shape{4, 3, 5};
    shape[axis] += 8;
    ASSERT_EQ(concat.top().shape(), shape);
    const int64_t outer = concat.top().count(0, axis);
    EXPECT_EQ(concat.Top(), Joined({concat.Bottom(0), concat.Bottom(1), concat.Bottom(2)}, outer));
    concat.RandomTopDiff();
    concat.Backward();
    EXPECT_EQ(concat.top().DiffAsDouble(),
              Joined({concat.BottomDiff(0), concat.BottomDiff(1), concat.BottomDiff(2)}, outer));
  }
}

TEST_P(ConcatLayerTest, OneBottomIsShared) {
  const auto [device, type] = GetParam();
  LayerTester concat = MakeConcat("", {{2, 3, 4}}, device, type);
  concat.bottom().device_data();
  device->ResetCounters();
  concat.Forward();
  EXPECT_EQ(device->counters().launches + device->counters().copies, 0);
  EXPECT_EQ(concat.Top(), concat.Bottom(0));
  concat.RandomTopDiff();
  concat.Backward();
  EXPECT_EQ(concat.BottomDiff(0), concat.top().DiffAsDouble());
}

INSTANTIATE_TEST_SUITE_P(All, ConcatLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(ConcatLayerShapeTest, AxisAndItsOlderForm) {
  const std::vector<Shape> shapes{{2, 3, 4}, {2, 3, 4}};
  EXPECT_EQ(MakeConcat("", shapes).top().shape(), Shape({2, 6, 4}));
  EXPECT_EQ(MakeConcat("axis: -1", shapes).top().shape(), Shape({2, 3, 8}));
  EXPECT_EQ(MakeConcat("concat_dim: 0", shapes).top().shape(), Shape({4, 3, 4}));
  EXPECT_EQ(MakeConcat("", {{2, 3}, {2, 0}}).top().shape(), Shape({2, 3}));
}

TEST(ConcatLayerErrorsTest, NameTheBlob) {
  const auto error = [](const std::string& more, const std::vector<Shape>& shapes) {
    return ErrorOf([&] { MakeConcat(more, shapes); });
  };
  EXPECT_TRUE(
      Holds(error("", {{2, 3}, {3, 3}}),
            "tested (Concat): blob bottom1 of shape 3 3 (9) cannot be joined with bottom0"));
  EXPECT_TRUE(Holds(error("", {{2, 3}, {2, 3, 1}}), "blob bottom1 of shape 2 3 1 (6)"));
  EXPECT_TRUE(Holds(error("axis: 2", {{2, 3}, {2, 3}}), "axis 2 is out of range"));
  EXPECT_TRUE(Holds(error("concat_dim: 2", {{2, 3}, {2, 3}}), "concat_dim 2 is not an axis"));
  EXPECT_TRUE(Holds(error("axis: 1 concat_dim: 1", {{2, 3}}), "either axis or concat_dim"));
  EXPECT_THROW(MakeConcat("", {}), Error);
}

TEST(ConcatLayerGradientTest, AgreesWithDifferences) {
  MakeConcat("axis: 1", {{2, 3, 2}, {2, 1, 2}}, Runtime::Get().cpu(), kDouble).CheckGradient();
}

TEST(ConcatLayerGradientTest, LeavesOutBottomsWithoutAGradient) {
  LayerTester concat = MakeConcat("", {{2, 2}, {2, 1}});
  concat.Forward();
  concat.RandomTopDiff();
  BlobVec bottoms{&concat.bottom(0), &concat.bottom(1)}, tops{&concat.top()};
  concat.layer().Backward(tops, {false, true}, bottoms);
  EXPECT_EQ(concat.BottomDiff(0), std::vector<double>(4, 0));
  const std::vector<double> diff = concat.top().DiffAsDouble();
  EXPECT_EQ(concat.BottomDiff(1), std::vector<double>({diff[2], diff[5]}));
}

class QuantizedConcatLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(QuantizedConcatLayerTest, RescalesWhereRangesDiffer) {
  const auto [device, type] = GetParam();
  LayerTester concat = MakeConcat("", {{2, 2}, {2, 1}}, device, type);
  const QuantRange range{0.5, 10, true};
  concat.bottom(0).set_range(range);
  concat.bottom(1).set_range({0.25, 20, true});
  concat.top().set_range(range);
  const auto put = [type = type](BlobBase& blob, const std::vector<int>& codes) {
    char* data = static_cast<char*>(blob.mutable_host_data());
    for (size_t i = 0; i < codes.size(); ++i) {
      std::memcpy(data + i * type.bytes(), &codes[i], type.bytes());  // little endian
    }
  };
  put(concat.bottom(0), {0, 255, 10, 7});
  put(concat.bottom(1), {23, 0});  // 3 quarters: 1.5 halves round to 2; -20 quarters
  concat.Forward();
  std::vector<int> codes(6, 0);
  for (size_t i = 0; i < codes.size(); ++i) {
    std::memcpy(&codes[i], static_cast<const char*>(concat.top().host_data()) + i * type.bytes(),
                type.bytes());
  }
  EXPECT_EQ(codes, std::vector<int>({0, 255, 12, 10, 7, 0}));
  EXPECT_THROW(concat.Backward(), Error);
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedConcatLayerTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

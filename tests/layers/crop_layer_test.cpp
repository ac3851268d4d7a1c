#include <gtest/gtest.h>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "io/temporary_folder.hpp"
#include "support/codes.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

LayerTester MakeCrop(const std::string& parameter, const Shape& shape, const Shape& like,
                     Device* device = Runtime::Get().cpu(), DataType type = kFloat) {
  return LayerTester("type: 'Crop' crop_param { " + parameter + " }", device,
                     TypeTriple::Equal(type), {shape, like});
}

struct Case {
  const char* parameter;
  Shape shape, like, offsets, top;  // an offset for each axis
};

const std::vector<Case>& Cases() {
  static const auto* const cases = new std::vector<Case>{
      {"", {2, 3, 6, 5}, {4, 7, 4, 3}, {0, 0, 0, 0}, {2, 3, 4, 3}},
      {"offset: 2", {2, 3, 6, 5}, {2, 3, 4, 3}, {0, 0, 2, 2}, {2, 3, 4, 3}},
      {"offset: 1 offset: 2", {2, 3, 6, 5}, {2, 3, 4, 3}, {0, 0, 1, 2}, {2, 3, 4, 3}},
      {"axis: 1 offset: 2 offset: 0 offset: 1",
       {2, 5, 4, 3},
       {1, 2, 4, 1},
       {0, 2, 0, 1},
       {2, 2, 4, 1}},
      {"axis: -1 offset: 3", {2, 3, 4, 5}, {9, 9, 9, 2}, {0, 0, 0, 3}, {2, 3, 4, 2}},
      {"axis: 0 offset: 1", {4, 5}, {2, 3}, {1, 1}, {2, 3}},
      {"offset: 0", {2, 3, 4, 5}, {2, 3, 4, 5}, {0, 0, 0, 0}, {2, 3, 4, 5}},  // all of it
      {"axis: 0 offset: 7", {37}, {11}, {7}, {11}},
      {"offset: 1", {1, 2, 3, 4, 5}, {1, 2, 2, 2, 2}, {0, 0, 1, 1, 1}, {1, 2, 2, 2, 2}},
      {"offset: 1", {0, 2, 3, 4}, {0, 2, 2, 2}, {0, 0, 1, 1}, {0, 2, 2, 2}},
      {"offset: 1", {1, 2, 3, 4}, {1, 2, 0, 2}, {0, 0, 1, 1}, {1, 2, 0, 2}},
  };
  return *cases;
}

// Where element i of the top is in the bottom.
int64_t SourceOf(int64_t i, const Case& c) {
  Shape index(c.top.size());
  for (size_t a = c.top.size(); a-- > 0;) {
    index[a] = i % c.top[a] + c.offsets[a];
    i /= c.top[a];
  }
  int64_t source = 0;
  for (size_t a = 0; a < index.size(); ++a) source = source * c.shape[a] + index[a];
  return source;
}

class CropLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(CropLayerTest, ForwardAndBackward) {
  const auto [device, type] = GetParam();
  for (const Case& c : Cases()) {
    LayerTester layer = MakeCrop(c.parameter, c.shape, c.like, device, type);
    layer.Forward();
    ASSERT_EQ(layer.top().shape(), c.top) << c.parameter;
    const std::vector<double> x = layer.Bottom(0), y = layer.Top();
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(y[i], x[SourceOf(static_cast<int64_t>(i), c)]) << c.parameter << " " << i;
    }
    // The old gradient is overwritten, outside the window with 0.
    layer.bottom(0).SetDiff(std::vector<double>(x.size(), 7));
    layer.RandomTopDiff();
    layer.Backward();
    const std::vector<double> y_diff = layer.top().DiffAsDouble();
    std::vector<double> x_diff(x.size(), 0);
    for (size_t i = 0; i < y.size(); ++i) {
      x_diff[SourceOf(static_cast<int64_t>(i), c)] = y_diff[i];
    }
    EXPECT_EQ(layer.BottomDiff(0), x_diff) << c.parameter;
  }
}

TEST_P(CropLayerTest, ByHand) {
  const auto [device, type] = GetParam();
  LayerTester layer = MakeCrop("axis: 0 offset: 1 offset: 0", {3, 3}, {2, 2}, device, type);
  layer.SetBottom(0, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  layer.Forward();
  EXPECT_EQ(layer.Top(), (std::vector<double>{3, 4, 6, 7}));
  layer.SetTopDiff(0, {1, 2, 3, 4});
  layer.Backward();
  EXPECT_EQ(layer.BottomDiff(0), (std::vector<double>{0, 0, 0, 1, 2, 0, 3, 4, 0}));
}

INSTANTIATE_TEST_SUITE_P(All, CropLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(CropLayerGradientTest, AgreesWithDifferences) {
  EXPECT_EQ(TraitsOf("Crop").no_gradient_bottoms, std::vector<int>{1});
  MakeCrop("offset: 1", {2, 2, 4, 3}, {1, 1, 2, 2}, Runtime::Get().cpu(), kDouble).CheckGradient();
}

TEST(CropLayerErrorsTest, NameTheValues) {
  const auto error = [](const std::string& parameter, const Shape& shape, const Shape& like) {
    return ErrorOf([&] { MakeCrop(parameter, shape, like); });
  };
  EXPECT_TRUE(Holds(error("offset: 2", {1, 1, 4, 4}, {1, 1, 2, 3}),
                    "tested (Crop): along axis 3 an extent of 3 (of blob bottom1) from offset 2 "
                    "exceeds the extent 4 of blob bottom0"));
  EXPECT_TRUE(Holds(error("", {1, 1, 4, 4}, {4, 4}), "the bottoms must have equally many axes"));
  EXPECT_TRUE(Holds(error("axis: 1 offset: 0 offset: 0", {1, 1, 4, 4}, {1, 1, 4, 4}),
                    "2 offsets are given for the 3 axes from axis 1 on"));
  EXPECT_TRUE(Holds(error("axis: 4", {1, 1, 4, 4}, {1, 1, 4, 4}), "axis 4 is out of range"));
  LayerTester layer = MakeCrop("", {1, 1, 2, 2}, {1, 1, 2, 2});
  const BlobVec top{&layer.bottom(1)};
  EXPECT_TRUE(Holds(ErrorOf([&] {
                      layer.layer().LayerSetUp({&layer.bottom(0), &layer.bottom(1)}, top);
                    }),
                    "cannot work in place"));
}

class QuantizedCropLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(QuantizedCropLayerTest, CarriesCodesAndRange) {
  const auto [device, type] = GetParam();
  for (const Case& c : Cases()) {
    LayerTester layer = MakeCrop(c.parameter, c.shape, c.like, device, type);
    const std::vector<int64_t> codes = TestCodes(layer.bottom().count(), type);
    SetCodesOf(&layer.bottom(), codes);
    layer.bottom().set_range({0.3, 99, true});
    layer.Forward();
    EXPECT_EQ(layer.top().range().scale, 0.3);
    EXPECT_EQ(layer.top().range().zero, 99);
    const std::vector<int64_t> top = CodesOf(layer.top());
    for (size_t i = 0; i < top.size(); ++i) {
      ASSERT_EQ(top[i], codes[SourceOf(static_cast<int64_t>(i), c)]) << c.parameter;
    }
    if (layer.bottom().count() > 0) {
      EXPECT_THROW(layer.Backward(), Error);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedCropLayerTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

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

LayerTester MakeTile(const std::string& parameter, const Shape& shape,
                     Device* device = Runtime::Get().cpu(), DataType type = kFloat) {
  return LayerTester("type: 'Tile' tile_param { " + parameter + " }", device,
                     TypeTriple::Equal(type), {shape});
}

class TileLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(TileLayerTest, ByHand) {
  const auto [device, type] = GetParam();
  LayerTester layer = MakeTile("tiles: 3", {2, 2}, device, type);
  layer.SetBottom(0, {0, 1, 2, 3});
  layer.Forward();
  ASSERT_EQ(layer.top().shape(), Shape({2, 6}));
  EXPECT_EQ(layer.Top(), (std::vector<double>{0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3}));
  layer.SetTopDiff(0, {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60});
  layer.Backward();
  EXPECT_EQ(layer.BottomDiff(0), (std::vector<double>{9, 12, 90, 120}));
}

TEST_P(TileLayerTest, EveryAxis) {
  const auto [device, type] = GetParam();
  const Shape shape{2, 3, 1, 5};
  for (int axis = -4; axis < 4; ++axis) {
    for (const int tiles : {1, 2, 7}) {
      LayerTester layer = MakeTile(Concat("axis: ", axis, " tiles: ", tiles), shape, device, type);
      layer.Forward();
      const int place = axis < 0 ? axis + 4 : axis;
      Shape tiled = shape;
      tiled[place] *= tiles;
      ASSERT_EQ(layer.top().shape(), tiled);
      const int64_t outer = layer.bottom().count(0, place), row = layer.bottom().count(place);
      layer.RandomTopDiff();
      layer.Backward();
      const std::vector<double> x = layer.Bottom(0), y_diff = layer.top().DiffAsDouble();
      std::vector<double> y(x.size() * tiles), x_diff(x.size());
      for (int64_t o = 0; o < outer; ++o) {
        for (int64_t t = 0; t < tiles; ++t) {
          for (int64_t i = 0; i < row; ++i) {
            y[(o * tiles + t) * row + i] = x[o * row + i];
            x_diff[o * row + i] += y_diff[(o * tiles + t) * row + i];
          }
        }
      }
      EXPECT_EQ(layer.Top(), y) << "axis " << axis;
      ExpectNear(layer.BottomDiff(0), x_diff, Tolerance(type), Concat("axis ", axis));
    }
  }
}

TEST_P(TileLayerTest, BatchOfNone) {
  const auto [device, type] = GetParam();
  LayerTester layer = MakeTile("tiles: 2", {0, 3}, device, type);
  layer.Forward();
  EXPECT_EQ(layer.top().shape(), Shape({0, 6}));
  EXPECT_NO_THROW(layer.Backward());
}

INSTANTIATE_TEST_SUITE_P(All, TileLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(TileLayerGradientTest, AgreesWithDifferences) {
  for (const int axis : {0, 1, 2}) {
    MakeTile(Concat("axis: ", axis, " tiles: 3"), {2, 3, 4}, Runtime::Get().cpu(), kDouble)
        .CheckGradient();
  }
}

TEST(TileLayerErrorsTest, NameTheValues) {
  const auto error = [](const std::string& parameter) {
    return ErrorOf([&] { MakeTile(parameter, {2, 3}); });
  };
  EXPECT_TRUE(Holds(error(""), "tested (Tile): tile_param needs tiles"));
  EXPECT_TRUE(Holds(error("tiles: 0"), "tiles is 0; it must be positive"));
  EXPECT_TRUE(Holds(error("tiles: 2 axis: 2"), "axis 2 is out of range"));
}

class QuantizedTileLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(QuantizedTileLayerTest, CarriesCodesAndRange) {
  const auto [device, type] = GetParam();
  LayerTester layer = MakeTile("axis: 0 tiles: 2", {3, 5}, device, type);
  std::vector<int64_t> codes = TestCodes(15, type);
  SetCodesOf(&layer.bottom(), codes);
  layer.bottom().set_range({0.3, 99, true});
  layer.Forward();
  EXPECT_EQ(layer.top().range().scale, 0.3);
  EXPECT_EQ(layer.top().range().zero, 99);
  const std::vector<int64_t> once = codes;
  codes.insert(codes.end(), once.begin(), once.end());
  EXPECT_EQ(CodesOf(layer.top()), codes);
  EXPECT_THROW(layer.Backward(), Error);
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedTileLayerTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

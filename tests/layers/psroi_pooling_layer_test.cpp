#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "layers/regions.hpp"
#include "support/data_error.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

std::string PSROIPoolingText(int outputs, int group, double scale) {
  return Concat("type: 'PSROIPooling' psroi_pooling_param { output_dim: ", outputs,
                " group_size: ", group, " spatial_scale: ", scale, " }");
}

struct Case {
  int64_t images, height, width;
  int outputs, group;
  float scale;
  std::vector<Region> regions;
  Shape x() const { return {images, outputs * group * group, height, width}; }
};

std::vector<Case> Cases() {
  return {
      // The whole image, a part, one pixel, a malformed region, one that leaves the image, one
      // outside it.
      {2,
       9,
       11,
       2,
       3,
       1.f,
       {{0, 0, 0, 10, 8},
        {1, 2, 3, 7, 6},
        {0, 4, 4, 4, 4},
        {1, 6, 6, 2, 3},
        {1, -3, -2, 4, 20},
        {0, 40, 2, 60, 5}}},
      // Scaled, so that regions begin between elements; coordinates that need rounding.
      {1,
       8,
       8,
       3,
       2,
       0.0625f,
       {{0, 8.5, 24.4, 100, 88}, {0, -8, -24, 56, 40}, {0, 0, 0, 127, 127}}},
      {2, 5, 4, 1, 7, 0.25f, {{1, 0, 0, 2, 3}, {0, 1, 1, 15, 19}, {1, 1, 2, 3, 4}}},
      {1, 1, 1, 1, 1, 1.f, {{0, 0, 0, 0, 0}}},
      {1,
       3,
       3,
       1,
       2,
       1.f,
       {{0, NAN, 0, NAN, 2}, {0, 1e30, 1e30, 1e30, 1e30}, {0, -1e30, 0, 1e30, 2}}},
  };
}

// The elements of each bin along an axis, without the last, in float.
struct Bins {
  float start = 0, size = 0;
  Bins(double first, double last, float scale, int64_t bins) {
    const auto round = [](double v) { return static_cast<float>(RoundCut(static_cast<float>(v))); };
    start = round(first) * scale;
    const float end = (round(last) + 1) * scale;
    size = std::max(end - start, 0.1f) / static_cast<float>(bins);
  }
  int64_t Begin(int64_t bin, int64_t extent) const {
    const float begin = static_cast<float>(bin) * size;
    return static_cast<int64_t>(
        std::clamp(std::floor(begin + start), 0.f, static_cast<float>(extent)));
  }
  int64_t End(int64_t bin, int64_t extent) const {
    const float end = static_cast<float>(bin + 1) * size;
    return static_cast<int64_t>(
        std::clamp(std::ceil(end + start), 0.f, static_cast<float>(extent)));
  }
};

// Calls visit(element of y, elements of x) for every bin.
template <class Visit> void ForEachBin(const Case& c, const Visit& visit) {
  int64_t i = 0;
  for (const Region& region : c.regions) {
    const Bins rows(region.y0, region.y1, c.scale, c.group);
    const Bins columns(region.x0, region.x1, c.scale, c.group);
    for (int64_t o = 0; o < c.outputs; ++o) {
      for (int64_t gh = 0; gh < c.group; ++gh) {
        for (int64_t gw = 0; gw < c.group; ++gw) {
          const int64_t channel = (o * c.group + gh) * c.group + gw;
          const int64_t plane = static_cast<int64_t>(region.image) * c.x()[1] + channel;
          std::vector<int64_t> elements;
          for (int64_t h = rows.Begin(gh, c.height); h < rows.End(gh, c.height); ++h) {
            for (int64_t w = columns.Begin(gw, c.width); w < columns.End(gw, c.width); ++w) {
              elements.push_back((plane * c.height + h) * c.width + w);
            }
          }
          visit(i++, elements);
        }
      }
    }
  }
}

class PSROIPoolingLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(PSROIPoolingLayerTest, ByHand) {
  const auto [device, type] = GetParam();
  LayerTester layer(PSROIPoolingText(1, 2, 0.5), device, TypeTriple::Equal(type),
                    {{1, 4, 2, 3}, {1, 5}});
  layer.SetBottom(
      0, {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60, -1, -2, -3, -4, -5, -6, 7, 7, 8, 9, 10, 11});
  // From column 0.5 to 3 and row 0 to 2: bins of columns {0, 1} and {1, 2}, rows {0} and {1}.
  layer.SetBottom(1, {0, 1, 0, 5, 3});
  layer.Forward();
  EXPECT_EQ(layer.top().shape(), Shape({1, 1, 2, 2}));
  EXPECT_EQ(layer.Top(), std::vector<double>({1.5, 25, -4.5, 10.5}));
  layer.SetTopDiff(0, {1, 2, 3, 4});
  layer.Backward();
  EXPECT_EQ(layer.BottomDiff(0), std::vector<double>({0.5, 0.5, 0, 0,   0,   0, 0, 1, 1, 0, 0, 0,
                                                      0,   0,   0, 1.5, 1.5, 0, 0, 0, 0, 0, 2, 2}));
}

TEST_P(PSROIPoolingLayerTest, AgreesWithTheFormula) {
  const auto [device, type] = GetParam();
  for (const Case& c : Cases()) {
    LayerTester layer(PSROIPoolingText(c.outputs, c.group, c.scale), device,
                      TypeTriple::Equal(type), {c.x(), RegionShape(c.regions)});
    SetRegions(&layer, c.regions);
    layer.Forward();
    layer.RandomTopDiff();
    layer.Backward();
    const std::vector<double> x = layer.Bottom(0), d = layer.top().DiffAsDouble();
    std::vector<double> y(d.size()), x_diff(x.size());
    ForEachBin(c, [&](int64_t i, const std::vector<int64_t>& elements) {
      const double area = static_cast<double>(elements.size());
      for (const int64_t at : elements) {
        y[i] += x[at] / area;
        x_diff[at] += d[i] / area;
      }
    });
    ExpectNear(layer.Top(), y, Tolerance(type), "y of " + ShapeString(c.x()));
    ExpectNear(layer.BottomDiff(0), x_diff, Tolerance(type), "dE/dx of " + ShapeString(c.x()));
  }
}

// Half would hold 2056 for 2055, and the second bin would begin one column later.
TEST_P(PSROIPoolingLayerTest, LargeCoordinatesAreExact) {
  const auto [device, type] = GetParam();
  LayerTester layer(PSROIPoolingText(1, 1, 1), device, TypeTriple::Equal(type),
                    {{1, 1, 1, 2060}, {1, 5}});
  std::vector<double> x(2060, 0);
  x[2055] = 1;
  layer.SetBottom(0, x);
  layer.SetBottom(1, {0, 2055, 0, 2056, 0});
  layer.Forward();
  EXPECT_EQ(layer.Top(), std::vector<double>({0.5}));
}

TEST_P(PSROIPoolingLayerTest, RegionsOfAnImageThatIsNotThere) {
  const auto [device, type] = GetParam();
  LayerTester layer(PSROIPoolingText(1, 1, 1), device, TypeTriple::Equal(type),
                    {{2, 1, 2, 2}, {2, 5}});
  SetRegions(&layer, {{1, 0, 0, 1, 1}, {2, 0, 0, 1, 1}});
  ExpectDataError(&layer,
                  "tested (PSROIPooling): region 1 is of image 2, but the batch has 2 image(s), "
                  "numbered from 0");
  if (!device->host_accessible()) {
    EXPECT_FALSE(std::isnan(layer.Top()[0]));
    EXPECT_TRUE(std::isnan(layer.Top()[1]));
    layer.SetTopDiff(0, {1, 1});
    layer.Backward();
    EXPECT_EQ(layer.BottomDiff(0), std::vector<double>({0, 0, 0, 0, 0.25, 0.25, 0.25, 0.25}));
  }
  SetRegions(&layer, {{1, 0, 0, 1, 1}, {0, 0, 0, 1, 1}});
  layer.Forward();
  EXPECT_NO_THROW(layer.layer().CheckData()) << "the error is thrown once";
}

TEST_P(PSROIPoolingLayerTest, NoRegionsAndNoImages) {
  const auto [device, type] = GetParam();
  LayerTester none(PSROIPoolingText(2, 2, 1), device, TypeTriple::Equal(type),
                   {{2, 8, 4, 4}, {0, 5}});
  none.Forward();
  EXPECT_EQ(none.top().shape(), Shape({0, 2, 2, 2}));
  none.bottom().SetDiff(std::vector<double>(256, 1));
  none.Backward();
  EXPECT_EQ(none.BottomDiff(0), std::vector<double>(256, 0));
  LayerTester empty(PSROIPoolingText(2, 2, 1), device, TypeTriple::Equal(type),
                    {{0, 8, 4, 4}, {0, 5}});
  empty.Forward();
  empty.Backward();
}

INSTANTIATE_TEST_SUITE_P(All, PSROIPoolingLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(PSROIPoolingLayerGradientTest, AgreesWithDifferences) {
  for (const Case& c : Cases()) {
    LayerTester layer(PSROIPoolingText(c.outputs, c.group, c.scale), Runtime::Get().cpu(),
                      TypeTriple::Equal(kDouble), {c.x(), RegionShape(c.regions)});
    SetRegions(&layer, c.regions);
    layer.CheckGradient();
  }
}

TEST(PSROIPoolingLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto message = [](const std::string& text, const Shape& x, const Shape& rois) {
    return ErrorOf([&] {
      LayerTester("type: 'PSROIPooling' psroi_pooling_param { " + text + " }", Runtime::Get().cpu(),
                  TypeTriple::Equal(kFloat), {x, rois});
    });
  };
  const std::string good = "output_dim: 2 group_size: 3 spatial_scale: 1";
  EXPECT_EQ(message(good, {1, 18, 4, 4}, {1, 5}), "");
  EXPECT_EQ(message("output_dim: 2 spatial_scale: 1", {1, 18, 4, 4}, {1, 5}),
            "tested (PSROIPooling): output_dim 2 and group_size 0 must be given and positive");
  EXPECT_EQ(message("output_dim: 2 group_size: 3", {1, 18, 4, 4}, {1, 5}),
            "tested (PSROIPooling): spatial_scale 0 must be given and positive");
  EXPECT_EQ(message(good, {1, 17, 4, 4}, {1, 5}),
            "tested (PSROIPooling): output_dim 2 and group_size 3 need 18 channels, but the "
            "features have "
            "shape 1 17 4 4 (272)");
  EXPECT_EQ(message(good, {18, 4, 4}, {1, 5}),
            "tested (PSROIPooling): needs features of 4 axes, not of shape 18 4 4 (288)");
  EXPECT_EQ(
      message(good, {1, 18, 4, 4}, {5}),
      "tested (PSROIPooling): needs regions of shape [R, 5] (image, x0, y0, x1, y1), not 5 (5)");
}

}  // namespace
}  // namespace caffe

#include <gtest/gtest.h>

#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "layers/regions.hpp"
#include "support/data_error.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

std::string ROIPoolingText(int pooled_h, int pooled_w, double scale) {
  return Concat("type: 'ROIPooling' roi_pooling_param { pooled_h: ", pooled_h,
                " pooled_w: ", pooled_w, " spatial_scale: ", scale, " }");
}

struct Case {
  Shape x;
  int pooled_h, pooled_w;
  float scale;
  std::vector<Region> regions;
};

std::vector<Case> Cases() {
  return {
      // The whole image, a part, one pixel, a malformed region (1 x 1), one that leaves the image,
      // one outside it.
      {{2, 3, 9, 11},
       3,
       2,
       1.f,
       {{0, 0, 0, 10, 8},
        {1, 2, 3, 7, 6},
        {0, 4, 4, 4, 4},
        {1, 6, 6, 2, 3},
        {1, -3, -2, 4, 20},
        {0, 40, 2, 60, 5}}},
      // More bins than pixels, so that an element is in several bins; images in no order.
      {{2, 2, 5, 4}, 7, 7, 1.f, {{1, 0, 0, 2, 3}, {0, 1, 1, 3, 3}, {1, 1, 2, 3, 4}}},
      // Scaled; halves are rounded away from zero.
      {{1, 2, 8, 8},
       2,
       3,
       0.0625f,
       {{0, 8, 24, 100, 88}, {0, -8, -24, 56, 40}, {0, 0, 0, 127, 127}}},
      {{1, 1, 1, 1}, 1, 1, 1.f, {{0, 0, 0, 0, 0}}},
      {{1, 1, 30, 33}, 6, 7, 0.25f, {{0, 0, 0, 131, 119}, {0, 13, 22, 90, 77}}},
      // No number, and numbers without end: a region outside the image.
      {{1, 1, 3, 3},
       2,
       2,
       1.f,
       {{0, NAN, 0, NAN, 2}, {0, 1e30, 1e30, 1e30, 1e30}, {0, -1e30, 0, 1e30, 2}}},
  };
}

// The first and the last element of each bin along an axis, without the last, in float.
struct Bins {
  int64_t start = 0;
  float size = 0;
  Bins(double first, double last, float scale, int64_t bins) {
    const auto round = [&](double v) { return RoundCut(static_cast<float>(v) * scale); };
    start = round(first);
    size = static_cast<float>(std::max<int64_t>(round(last) - start + 1, 1)) /
           static_cast<float>(bins);
  }
  int64_t Begin(int64_t bin, int64_t extent) const {
    const auto first = static_cast<int64_t>(std::floor(static_cast<float>(bin) * size));
    return std::clamp<int64_t>(start + first, 0, extent);
  }
  int64_t End(int64_t bin, int64_t extent) const {
    const auto end = static_cast<int64_t>(std::ceil(static_cast<float>(bin + 1) * size));
    return std::clamp<int64_t>(start + end, 0, extent);
  }
};

struct Pooled {
  std::vector<double> y;
  std::vector<int64_t> from;  // element of x, -1 for an empty bin
};

Pooled Pool(const Case& c, const std::vector<double>& x) {
  Pooled pooled;
  for (const Region& region : c.regions) {
    const Bins rows(region.y0, region.y1, c.scale, c.pooled_h);
    const Bins columns(region.x0, region.x1, c.scale, c.pooled_w);
    for (int64_t channel = 0; channel < c.x[1]; ++channel) {
      const int64_t plane = (static_cast<int64_t>(region.image) * c.x[1] + channel) * c.x[2];
      for (int64_t ph = 0; ph < c.pooled_h; ++ph) {
        for (int64_t pw = 0; pw < c.pooled_w; ++pw) {
          int64_t from = -1;
          for (int64_t h = rows.Begin(ph, c.x[2]); h < rows.End(ph, c.x[2]); ++h) {
            for (int64_t w = columns.Begin(pw, c.x[3]); w < columns.End(pw, c.x[3]); ++w) {
              const int64_t at = (plane + h) * c.x[3] + w;
              if (from < 0 || x[at] > x[from]) from = at;
            }
          }
          pooled.from.push_back(from);
          pooled.y.push_back(from < 0 ? 0 : x[from]);
        }
      }
    }
  }
  return pooled;
}

class ROIPoolingLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(ROIPoolingLayerTest, ByHand) {
  const auto [device, type] = GetParam();
  LayerTester layer(ROIPoolingText(2, 2, 0.5), device, TypeTriple::Equal(type),
                    {{1, 1, 3, 4}, {2, 5}});
  layer.SetBottom(0, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  // Columns 1 to 3 and rows 0 to 2: bins of columns {1, 2} and {2, 3}, rows {0, 1} and {1, 2}.
  // Column 3, row 1: each bin is that element.
  layer.SetBottom(1, {0, 2, 0, 6, 4, 0, 6, 2, 6, 2});
  layer.Forward();
  EXPECT_EQ(layer.top().shape(), Shape({2, 1, 2, 2}));
  EXPECT_EQ(layer.Top(), std::vector<double>({7, 8, 11, 12, 8, 8, 8, 8}));
  layer.SetTopDiff(0, {1, 2, 3, 4, 5, 6, 7, 8});
  layer.Backward();
  EXPECT_EQ(layer.BottomDiff(0), std::vector<double>({0, 0, 0, 0, 0, 0, 1, 28, 0, 0, 3, 4}));
}

TEST_P(ROIPoolingLayerTest, AgreesWithTheFormula) {
  const auto [device, type] = GetParam();
  for (const Case& c : Cases()) {
    LayerTester layer(ROIPoolingText(c.pooled_h, c.pooled_w, c.scale), device,
                      TypeTriple::Equal(type), {c.x, RegionShape(c.regions)});
    SetRegions(&layer, c.regions);
    layer.Forward();
    const Pooled expected = Pool(c, layer.Bottom(0));
    EXPECT_EQ(layer.Top(), expected.y) << ShapeString(c.x);
    layer.RandomTopDiff();
    layer.Backward();
    const std::vector<double> d = layer.top().DiffAsDouble();
    std::vector<double> x_diff(layer.bottom().count());
    for (size_t i = 0; i < d.size(); ++i) {
      if (expected.from[i] >= 0) x_diff[expected.from[i]] += d[i];
    }
    ExpectNear(layer.BottomDiff(0), x_diff, Tolerance(type), "dE/dx of " + ShapeString(c.x));
  }
}

// 2055 / 16 is rounded to 128; half would hold 2056, and round to 129.
TEST_P(ROIPoolingLayerTest, LargeCoordinatesAreExact) {
  const auto [device, type] = GetParam();
  LayerTester layer(ROIPoolingText(1, 1, 0.0625), device, TypeTriple::Equal(type),
                    {{1, 1, 1, 160}, {1, 5}});
  std::vector<double> x(160, 0);
  x[128] = 0.5;
  x[129] = 0.75;
  layer.SetBottom(0, x);
  layer.SetBottom(1, {0, 0, 0, 2055, 0});
  layer.Forward();
  EXPECT_EQ(layer.Top(), std::vector<double>({0.5}));
}

TEST_P(ROIPoolingLayerTest, RegionsOfAnImageThatIsNotThere) {
  const auto [device, type] = GetParam();
  for (const double image : {-1.0, 2.0, 1e30, std::nan("")}) {
    LayerTester layer(ROIPoolingText(1, 1, 1), device, TypeTriple::Equal(type),
                      {{2, 1, 2, 2}, {3, 5}});
    SetRegions(&layer, {{1, 0, 0, 1, 1}, {image, 0, 0, 1, 1}, {0, 0, 0, 1, 1}});
    const std::string message = Concat("tested (ROIPooling): region 1 is of image ", image,
                                       ", but the batch has 2 image(s), numbered from 0");
    ExpectDataError(&layer, message);
    if (!device->host_accessible()) {
      EXPECT_FALSE(std::isnan(layer.Top()[0]));
      EXPECT_TRUE(std::isnan(layer.Top()[1]));
      EXPECT_FALSE(std::isnan(layer.Top()[2]));
      layer.SetTopDiff(0, {1, 1, 1});
      layer.Backward();
      double sum = 0;
      for (const double d : layer.BottomDiff(0)) sum += d;
      EXPECT_EQ(sum, 2) << "nothing of the region without an image";
    }
    SetRegions(&layer, {{1, 0, 0, 1, 1}, {1, 0, 0, 1, 1}, {0, 0, 0, 1, 1}});
    layer.Forward();
    EXPECT_NO_THROW(layer.layer().CheckData()) << "the error is thrown once";
  }
}

TEST_P(ROIPoolingLayerTest, NoRegionsAndNoImages) {
  const auto [device, type] = GetParam();
  LayerTester none(ROIPoolingText(2, 2, 1), device, TypeTriple::Equal(type),
                   {{2, 3, 4, 4}, {0, 5}});
  none.Forward();
  EXPECT_EQ(none.top().shape(), Shape({0, 3, 2, 2}));
  none.bottom().SetDiff(std::vector<double>(96, 1));
  none.Backward();
  EXPECT_EQ(none.BottomDiff(0), std::vector<double>(96, 0));
  LayerTester empty(ROIPoolingText(2, 2, 1), device, TypeTriple::Equal(type),
                    {{0, 3, 4, 4}, {0, 5}});
  empty.Forward();
  empty.Backward();
}

INSTANTIATE_TEST_SUITE_P(All, ROIPoolingLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(ROIPoolingLayerGradientTest, AgreesWithDifferences) {
  for (const Case& c : Cases()) {
    LayerTester layer(ROIPoolingText(c.pooled_h, c.pooled_w, c.scale), Runtime::Get().cpu(),
                      TypeTriple::Equal(kDouble), {c.x, RegionShape(c.regions)});
    SetRegions(&layer, c.regions);
    // Distinct values, so that no difference crosses another maximum.
    std::vector<double> x = layer.Bottom(0);
    for (size_t i = 0; i < x.size(); ++i) x[i] += 1e-3 * static_cast<double>(i) / x.size();
    layer.SetBottom(0, x);
    layer.CheckGradient(1e-7, 1e-5);
  }
}

// Regions of 4 axes, as some data layers make them; the shapes follow the bottoms.
TEST(ROIPoolingLayerShapeTest, FollowsTheBottoms) {
  LayerTester layer(ROIPoolingText(1, 1, 1), Runtime::Get().cpu(), TypeTriple::Equal(kFloat),
                    {{1, 2, 4, 4}, {1, 5, 1, 1}});
  layer.bottom(1).Reshape({3, 5, 1, 1});
  layer.bottom(0).Reshape({1, 2, 2, 3});
  layer.SetBottom(1, {0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 2, 1, 2, 1});
  layer.SetBottom(0, {1, 2, 3, 4, 5, 6, -1, -2, -3, -4, -5, -6});
  layer.Forward();
  EXPECT_EQ(layer.Top(), std::vector<double>({6, -1, 1, -1, 6, -6}));
}

TEST(ROIPoolingLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto message = [](const std::string& text, const Shape& x, const Shape& rois) {
    return ErrorOf([&] {
      LayerTester("type: 'ROIPooling' roi_pooling_param { " + text + " }", Runtime::Get().cpu(),
                  TypeTriple::Equal(kFloat), {x, rois});
    });
  };
  EXPECT_EQ(message("pooled_h: 2 pooled_w: 2", {1, 1, 4, 4}, {1, 5}), "");
  EXPECT_EQ(message("pooled_h: 2", {1, 1, 4, 4}, {1, 5}),
            "tested (ROIPooling): pooled_h 2 and pooled_w 0 must be given and positive");
  EXPECT_EQ(message("pooled_h: 2 pooled_w: 2", {1, 4, 4}, {1, 5}),
            "tested (ROIPooling): needs features of 4 axes, not of shape 1 4 4 (16)");
  EXPECT_EQ(message("pooled_h: 2 pooled_w: 2", {1, 1, 4, 4}, {1, 4}),
            "tested (ROIPooling): needs regions of shape [R, 5] (image, x0, y0, x1, y1), not "
            "1 4 (4)");
}

}  // namespace
}  // namespace caffe

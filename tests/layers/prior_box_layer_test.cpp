#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/data_error.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

struct Size {
  double width, height;
};

struct Case {
  std::string text;  // of the LayerParameter
  Shape map, image;
  std::vector<Size> sizes;  // of a cell, in order
  double step_w, step_h, image_w, image_h, offset = 0.5;
  bool clip = false;
  std::vector<double> variances{0.1, 0.1, 0.1, 0.1};
};

std::vector<Case> Cases() {
  const double root = std::sqrt(2.0);
  return {
      {"type: 'PriorBox' prior_box_param { min_size: 4 }",
       {1, 3, 2, 5},
       {1, 3, 20, 40},
       {{4, 4}},
       8,
       10,
       40,
       20},
      // The square of both sizes comes second, and ratios follow with their inverse ones; 1 and
      // repeated ratios are left out.
      {"type: 'PriorBox' prior_box_param { min_size: 8 max_size: 18 aspect_ratio: 2 "
       "aspect_ratio: 1 aspect_ratio: 2 aspect_ratio: 0.5 variance: 0.1 variance: 0.2 "
       "variance: 0.3 variance: 0.4 clip: true }",
       {2, 1, 3, 2},
       {2, 3, 24, 16},
       {{8, 8}, {12, 12}, {8 * root, 8 / root}, {8 / root, 8 * root}},
       8,
       8,
       16,
       24,
       0.5,
       true,
       {0.1, 0.2, 0.3, 0.4}},
      {"type: 'PriorBox' prior_box_param { min_size: 4 min_size: 6 max_size: 9 max_size: 24 "
       "aspect_ratio: 2 flip: false step: 7 offset: 0.25 img_size: 50 variance: 0.25 }",
       {1, 1, 2, 2},
       {1, 1, 1, 1},
       {{4, 4}, {6, 6}, {4 * root, 4 / root}, {6, 6}, {12, 12}, {6 * root, 6 / root}},
       7,
       7,
       50,
       50,
       0.25,
       false,
       {0.25, 0.25, 0.25, 0.25}},
      {"type: 'PriorBoxClustered' prior_box_param { width: 29.9 height: 67 width: 5 height: 3 "
       "step_w: 4 step_h: 5 img_w: 60 img_h: 30 offset: 0 }",
       {1, 7, 3, 4},
       {1, 3, 9, 9},
       {{29.9, 67}, {5, 3}},
       4,
       5,
       60,
       30,
       0},
  };
}

class PriorBoxLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(PriorBoxLayerTest, AgreesWithTheDefinition) {
  const auto [device, type] = GetParam();
  for (const Case& c : Cases()) {
    LayerTester layer(c.text, device, TypeTriple::Equal(type), {c.map, c.image});
    layer.Forward();
    std::vector<double> expected;
    const double extents[] = {c.image_w, c.image_h};
    for (int64_t row = 0; row < c.map[2]; ++row) {
      for (int64_t column = 0; column < c.map[3]; ++column) {
        const double centre[] = {(static_cast<double>(column) + c.offset) * c.step_w,
                                 (static_cast<double>(row) + c.offset) * c.step_h};
        for (const Size& size : c.sizes) {
          const double half[] = {size.width / 2, size.height / 2};
          for (int i = 0; i < 4; ++i) {
            const double v =
                (centre[i % 2] + (i < 2 ? -half[i % 2] : half[i % 2])) / extents[i % 2];
            expected.push_back(c.clip ? std::clamp(v, 0.0, 1.0) : v);
          }
        }
      }
    }
    const int64_t count = static_cast<int64_t>(expected.size());
    for (int64_t i = 0; i < count; ++i) expected.push_back(c.variances[i % 4]);
    EXPECT_EQ(layer.top().shape(), Shape({1, 2, count})) << c.text;
    EXPECT_EQ(layer.top().type(), kFloat) << "in nets of every type";
    ExpectNear(layer.Top(), expected, 1e-6, c.text);
  }
}

TEST_P(PriorBoxLayerTest, FollowsTheBottoms) {
  const auto [device, type] = GetParam();
  LayerTester layer("type: 'PriorBox' prior_box_param { min_size: 2 }", device,
                    TypeTriple::Equal(type), {{1, 1, 1, 1}, {1, 1, 4, 4}});
  layer.Forward();
  EXPECT_EQ(layer.Top(), std::vector<double>({0.25, 0.25, 0.75, 0.75, 0.1f, 0.1f, 0.1f, 0.1f}));
  layer.bottom(0).Reshape({1, 1, 1, 2});
  layer.bottom(1).Reshape({1, 1, 8, 8});
  layer.Forward();
  const std::vector<double> top = layer.Top();
  EXPECT_EQ(std::vector<double>(top.begin(), top.begin() + 8),
            std::vector<double>({0.125, 0.375, 0.375, 0.625, 0.625, 0.375, 0.875, 0.625}));
  layer.bottom(0).Reshape({1, 1, 0, 2});
  layer.Forward();
  EXPECT_EQ(layer.top().shape(), Shape({1, 2, 0}));
}

INSTANTIATE_TEST_SUITE_P(All, PriorBoxLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(PriorBoxLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto message = [](const std::string& text, const std::string& layer_type = "PriorBox",
                          const Shape& map = {1, 1, 2, 2}) {
    return ErrorOf([&] {
      LayerTester("type: '" + layer_type + "' prior_box_param { " + text + " }",
                  Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {map, {1, 3, 8, 8}});
    });
  };
  EXPECT_EQ(message("min_size: 2"), "");
  EXPECT_EQ(message(""), "tested (PriorBox): min_size must be given");
  EXPECT_EQ(message("min_size: -2"), "tested (PriorBox): min_size -2 must be positive");
  EXPECT_EQ(message("min_size: 2 min_size: 4 max_size: 5"),
            "tested (PriorBox): 2 values of min_size need as many of max_size, or none, not 1");
  EXPECT_EQ(message("min_size: 2 max_size: 2"),
            "tested (PriorBox): max_size 2 must be greater than min_size 2");
  EXPECT_EQ(message("min_size: 2 aspect_ratio: 0"),
            "tested (PriorBox): aspect_ratio 0 must be positive");
  EXPECT_EQ(message("min_size: 2 variance: 1 variance: 2"),
            "tested (PriorBox): give one variance or four, not 2");
  EXPECT_EQ(message("min_size: 2 variance: 0"), "tested (PriorBox): variance 0 must be positive");
  EXPECT_EQ(message("min_size: 2 step: 0"), "tested (PriorBox): step must be positive");
  EXPECT_EQ(message("min_size: 2 step: 2 step_h: 2 step_w: 2"),
            "tested (PriorBox): give either one step, or one for each axis");
  EXPECT_EQ(message("min_size: 2 img_h: 2"), "tested (PriorBox): give the image size of both axes");
  EXPECT_EQ(message("min_size: 2 width: 2 height: 2"),
            "tested (PriorBox): width and height belong to PriorBoxClustered");
  EXPECT_EQ(message("min_size: 2", "PriorBox", {1, 4}),
            "tested (PriorBox): needs a feature map and an image of 4 axes, not of shape 1 4 (4)");
  EXPECT_EQ(message("width: 2", "PriorBoxClustered"),
            "tested (PriorBoxClustered): needs as many values of width as of height; there are 1 "
            "and 0");
  EXPECT_EQ(message("width: 2 height: 2 min_size: 2", "PriorBoxClustered"),
            "tested (PriorBoxClustered): min_size, max_size and aspect_ratio belong to PriorBox");
}

}  // namespace
}  // namespace caffe

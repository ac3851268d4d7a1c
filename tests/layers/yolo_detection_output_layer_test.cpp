// YoloDetectionOutput and Yolov3DetectionOutput.
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

struct Map {
  int64_t height, width;
  std::vector<double> anchors;  // widths and heights, in cells
};

struct Case {
  std::string text;
  bool softmax;
  int64_t classes;
  double threshold, overlap;
  std::vector<Map> maps;
  int64_t images = 2;

  std::vector<Shape> Shapes() const {
    std::vector<Shape> shapes;
    for (const Map& map : maps) {
      const int64_t anchors = static_cast<int64_t>(map.anchors.size()) / 2;
      shapes.push_back({images, anchors * (5 + classes), map.height, map.width});
    }
    return shapes;
  }
};

std::vector<Case> Cases() {
  return {
      {"type: 'YoloDetectionOutput' yolo_detection_output_param { num_classes: 3 num_box: 2 "
       "confidence_threshold: 0.125 nms_threshold: 0.3 biases: 1 biases: 2 biases: 3 biases: 1.5 }",
       true,
       3,
       0.125,
       0.3,
       {{9, 7, {1, 2, 3, 1.5}}}},
      {"type: 'YoloDetectionOutput' yolo_detection_output_param { num_classes: 1 num_box: 1 "
       "biases: 2 biases: 2 }",
       true,
       1,
       0.01f,
       0.45f,
       {{3, 3, {2, 2}}, {6, 6, {2, 2}}},
       1},
      {"type: 'Yolov3DetectionOutput' yolov3_detection_output_param { num_classes: 4 num_box: 2 "
       "confidence_threshold: 0.25 nms_threshold: 0.5 mask_group_num: 2 anchors_scale: 32 "
       "anchors_scale: 16 mask: 2 mask: 1 mask: 0 mask: 1 biases: 16 biases: 32 biases: 48 "
       "biases: 24 biases: 64 biases: 128 }",
       false,
       4,
       0.25,
       0.5,
       {{3, 5, {2, 4, 1.5, 0.75}}, {6, 10, {1, 2, 3, 1.5}}}},
      {"type: 'Yolov3DetectionOutput' yolov3_detection_output_param { num_classes: 2 num_box: 1 "
       "confidence_threshold: 0.75 mask_group_num: 1 anchors_scale: 8 mask: 0 biases: 8 "
       "biases: 8 }",
       false,
       2,
       0.75,
       0.45f,
       {{2, 2, {1, 1}}}},
  };
}

struct Candidate {
  int64_t label;
  double score, x0, y0, x1, y1;
};

double Overlap(const Candidate& a, const Candidate& b) {
  const double w = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  const double h = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  if (w <= 0 || h <= 0) return 0;
  return w * h / ((a.x1 - a.x0) * (a.y1 - a.y0) + (b.x1 - b.x0) * (b.y1 - b.y0) - w * h);
}

double Logistic(double v) { return 1 / (1 + std::exp(-v)); }

std::vector<Candidate> Candidates(const Case& c, LayerTester& layer, int64_t image) {
  std::vector<Candidate> candidates;
  for (size_t m = 0; m < c.maps.size(); ++m) {
    const Map& map = c.maps[m];
    const std::vector<double> x = layer.Bottom(static_cast<int>(m));
    const int64_t anchors = static_cast<int64_t>(map.anchors.size()) / 2;
    const int64_t plane = map.height * map.width;
    for (int64_t cell = 0; cell < plane; ++cell) {
      for (int64_t n = 0; n < anchors; ++n) {
        const auto value = [&](int64_t field) {
          return x[((image * anchors + n) * (5 + c.classes) + field) * plane + cell];
        };
        const double cx = (static_cast<double>(cell % map.width) + Logistic(value(0))) / map.width;
        const double cy = (static_cast<double>(cell / map.width) + Logistic(value(1))) / map.height;
        const double w = std::exp(value(2)) * map.anchors[2 * n] / map.width;
        const double h = std::exp(value(3)) * map.anchors[2 * n + 1] / map.height;
        double sum = 0;
        int64_t best = 0;
        for (int64_t k = 0; k < c.classes; ++k) {
          sum += std::exp(value(5 + k));
          if (value(5 + k) > value(5 + best)) best = k;
        }
        for (int64_t k = 0; k < c.classes; ++k) {
          if (c.softmax && k != best) continue;
          const double share = c.softmax ? std::exp(value(5 + k)) / sum : Logistic(value(5 + k));
          const double score = Logistic(value(4)) * share;
          if (score <= c.threshold) continue;
          candidates.push_back({k, score, cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2});
        }
      }
    }
  }
  return candidates;
}

// The rows in any order of equal scores: those of the layer are compared by score and box.
std::vector<double> Expected(const Case& c, LayerTester& layer) {
  std::vector<double> rows;
  for (int64_t image = 0; image < c.images; ++image) {
    std::vector<Candidate> candidates = Candidates(c, layer, image);
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) {
                       return a.score != b.score ? a.score > b.score : a.label < b.label;
                     });
    std::vector<Candidate> kept;
    for (const Candidate& candidate : candidates) {
      const bool hidden = std::any_of(kept.begin(), kept.end(), [&](const Candidate& other) {
        return Overlap(candidate, other) >= c.overlap;
      });
      if (!hidden) kept.push_back(candidate);
    }
    for (const Candidate& k : kept) {
      rows.insert(rows.end(), {static_cast<double>(image), static_cast<double>(k.label + 1),
                               k.score, k.x0, k.y0, k.x1, k.y1});
    }
  }
  if (!rows.empty()) return rows;
  for (int64_t image = 0; image < c.images; ++image) {
    rows.insert(rows.end(), {static_cast<double>(image), -1, -1, -1, -1, -1, -1});
  }
  return rows;
}

class YoloDetectionOutputLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(YoloDetectionOutputLayerTest, AgreesWithTheDefinition) {
  const auto [device, type] = GetParam();
  for (const Case& c : Cases()) {
    LayerTester layer(c.text, device, TypeTriple::Equal(type), c.Shapes());
    // No two products of scores are equal.
    for (size_t b = 0; b < c.maps.size(); ++b) {
      const int64_t count = layer.bottom(static_cast<int>(b)).count();
      std::vector<double> x(count);
      for (int64_t i = 0; i < count; ++i) x[i] = std::sin(1.0 + 12.9898 * (i + 1000.0 * b)) * 2;
      layer.SetBottom(static_cast<int>(b), x);
    }
    layer.Forward();
    const std::vector<double> expected = Expected(c, layer);
    EXPECT_EQ(layer.top().shape(), Shape({1, 1, static_cast<int64_t>(expected.size()) / 7, 7}))
        << c.text;
    ExpectNear(layer.Top(), expected, 4e-6, c.text);
  }
}

INSTANTIATE_TEST_SUITE_P(All, YoloDetectionOutputLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

// One prediction of zeros: the centre of the cell, the extents of the anchor, scores of a half.
TEST(YoloDetectionOutputLayerByHandTest, OfZeros) {
  LayerTester v3(
      "type: 'Yolov3DetectionOutput' yolov3_detection_output_param { num_classes: 1 num_box: 1 "
      "mask_group_num: 1 anchors_scale: 8 mask: 1 biases: 1 biases: 1 biases: 4 biases: 8 }",
      Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{1, 6, 1, 1}});
  v3.SetBottom(0, std::vector<double>(6, 0));
  v3.Forward();
  EXPECT_EQ(v3.Top(), std::vector<double>({0, 1, 0.25, 0.25, 0, 0.75, 1}));
  LayerTester v2(
      "type: 'YoloDetectionOutput' yolo_detection_output_param { num_classes: 2 num_box: 1 "
      "confidence_threshold: 0.25 biases: 0.5 biases: 1 }",
      Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{1, 7, 1, 1}});
  v2.SetBottom(0, std::vector<double>(7, 0));
  v2.Forward();
  EXPECT_EQ(v2.Top(), std::vector<double>({0, 1, 0.25, 0.25, 0, 0.75, 1}))
      << "a score that is equal to the threshold is large enough, and the first class is the best";
}

TEST(YoloDetectionOutputLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto message = [](const std::string& text, const std::vector<Shape>& shapes) {
    return ErrorOf(
        [&] { LayerTester(text, Runtime::Get().cpu(), TypeTriple::Equal(kFloat), shapes); });
  };
  const auto v3 = [&](const std::string& text, const std::vector<Shape>& shapes = {{1, 6, 2, 2}}) {
    return message("type: 'Yolov3DetectionOutput' yolov3_detection_output_param { " + text + " }",
                   shapes);
  };
  const std::string good = "num_classes: 1 num_box: 1 mask_group_num: 1 ";
  const std::string all = good + "anchors_scale: 8 mask: 0 biases: 1 biases: 2";
  EXPECT_EQ(v3(all), "");
  EXPECT_EQ(v3("num_classes: 1 num_box: 1 anchors_scale: 8 mask: 0 biases: 1 biases: 2"),
            "tested (Yolov3DetectionOutput): mask_group_num 2 must be the number of bottoms, 1");
  EXPECT_EQ(v3(good + "mask: 0 biases: 1 biases: 2"),
            "tested (Yolov3DetectionOutput): 1 bottoms need as many values of anchors_scale, not "
            "0");
  EXPECT_EQ(v3(good + "anchors_scale: 8 biases: 1 biases: 2"),
            "tested (Yolov3DetectionOutput): 1 bottoms and num_box 1 need 1 values of mask, not 0");
  EXPECT_EQ(v3(good + "anchors_scale: 8 mask: 1 biases: 1 biases: 2"),
            "tested (Yolov3DetectionOutput): mask 1 is not one of the 1 anchors of biases");
  EXPECT_EQ(v3(all, {{1, 7, 2, 2}}),
            "tested (Yolov3DetectionOutput): 1 anchors and 1 classes need predictions of shape "
            "[images, 6, height, width], but blob bottom0 has shape 1 7 2 2 (28)");
  EXPECT_EQ(message("type: 'YoloDetectionOutput' yolo_detection_output_param { num_classes: 1 "
                    "num_box: 2 biases: 1 }",
                    {{1, 12, 2, 2}}),
            "tested (YoloDetectionOutput): num_box 2 needs 4 values of biases, not 1");
}

}  // namespace
}  // namespace caffe

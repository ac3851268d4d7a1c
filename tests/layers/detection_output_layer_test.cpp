#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/data_error.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

struct Box {
  double x0 = 0, y0 = 0, x1 = 0, y1 = 0;
};

double Overlap(const Box& a, const Box& b) {
  const double width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  const double height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  if (width <= 0 || height <= 0) return 0;
  const auto area = [](const Box& box) {
    return std::max(0.0, box.x1 - box.x0) * std::max(0.0, box.y1 - box.y0);
  };
  return width * height / (area(a) + area(b) - width * height);
}

struct Case {
  int64_t images, priors, classes;
  bool share = true;
  int background = 0;
  double threshold = 0.3, overlap = 0.45, eta = 1;
  int64_t top_k = -1, keep = -1;
  std::string code = "CENTER_SIZE";
  bool encoded = false;

  std::string Text() const {
    return Concat("type: 'DetectionOutput' detection_output_param { num_classes: ", classes,
                  " share_location: ", share, " background_label_id: ", background,
                  " nms_param { nms_threshold: ", overlap, " top_k: ", top_k, " eta: ", eta,
                  " } code_type: ", code, " keep_top_k: ", keep,
                  " confidence_threshold: ", threshold, " variance_encoded_in_target: ", encoded,
                  " }");
  }
  std::vector<Shape> Shapes() const {
    return {{images, priors * 4 * (share ? 1 : classes)},
            {images, priors * classes},
            {1, 2, priors * 4}};
  }
};

std::vector<Case> Cases() {
  return {
      {.images = 2, .priors = 150, .classes = 4},
      // Enough priors for several merges, with the best of each class and image.
      {.images = 1, .priors = 700, .classes = 3, .threshold = -2, .top_k = 100, .keep = 20},
      {.images = 2, .priors = 90, .classes = 3, .share = false, .background = -1, .keep = 30},
      {.images = 1, .priors = 200, .classes = 2, .overlap = 0.7, .eta = 0.9, .code = "CORNER"},
      {.images = 1, .priors = 70, .classes = 3, .keep = 0, .code = "CORNER_SIZE"},
      {.images = 3, .priors = 65, .classes = 2, .code = "CORNER_SIZE", .encoded = true},
      {.images = 2, .priors = 64, .classes = 2, .top_k = 0},
      {.images = 2, .priors = 3, .classes = 2, .threshold = 5},
  };
}

// Boxes of many overlaps: sides of 0.1 to 0.4 around centres in the image.
std::vector<double> Priors(int64_t count) {
  std::vector<double> priors(8 * count);
  const std::vector<double> random = TestNumbers(4 * count, 7);
  for (int64_t p = 0; p < count; ++p) {
    const double* r = &random[4 * p];
    const double x = 0.5 + 0.25 * r[0], y = 0.5 + 0.25 * r[1];
    const double w = 0.125 + 0.0625 * r[2], h = 0.125 + 0.0625 * r[3];
    for (int i = 0; i < 4; ++i) {
      priors[4 * p + i] = (i % 2 == 0 ? x : y) + (i < 2 ? -1 : 1) * (i % 2 == 0 ? w : h);
      priors[4 * (count + p) + i] = i < 2 ? 0.125 : 0.25;
    }
  }
  return priors;
}

// The definition, in double and without any of the layer's steps.
std::vector<double> Detections(const Case& c, const std::vector<double>& codes,
                               const std::vector<double>& scores,
                               const std::vector<double>& priors) {
  const int64_t box_classes = c.share ? 1 : c.classes;
  std::vector<double> rows;
  for (int64_t image = 0; image < c.images; ++image) {
    struct Found {
      int64_t label;
      double score;
      Box box;
    };
    std::vector<Found> found;
    for (int64_t label = 0; label < c.classes; ++label) {
      if (label == c.background) continue;
      const auto score = [&](int64_t p) {
        return scores[(image * c.priors + p) * c.classes + label];
      };
      std::vector<int64_t> order;
      for (int64_t p = 0; p < c.priors; ++p) {
        if (score(p) > c.threshold) order.push_back(p);
      }
      std::stable_sort(order.begin(), order.end(),
                       [&](int64_t p, int64_t q) { return score(p) > score(q); });
      if (c.top_k >= 0 && c.top_k < static_cast<int64_t>(order.size())) order.resize(c.top_k);
      std::vector<Box> kept;
      double bound = c.overlap;
      for (const int64_t p : order) {
        const double* prior = &priors[4 * p];
        const double* variance = &priors[4 * (c.priors + p)];
        double code[4];
        for (int i = 0; i < 4; ++i) {
          code[i] = codes[((image * c.priors + p) * box_classes + (c.share ? 0 : label)) * 4 + i] *
                    (c.encoded ? 1 : variance[i]);
        }
        const double w = prior[2] - prior[0], h = prior[3] - prior[1];
        Box box{prior[0] + code[0], prior[1] + code[1], prior[2] + code[2], prior[3] + code[3]};
        if (c.code == "CORNER_SIZE") {
          box = {prior[0] + w * code[0], prior[1] + h * code[1], prior[2] + w * code[2],
                 prior[3] + h * code[3]};
        } else if (c.code == "CENTER_SIZE") {
          const double x = prior[0] + w / 2 + w * code[0], y = prior[1] + h / 2 + h * code[1];
          const double half_w = w * std::exp(code[2]) / 2, half_h = h * std::exp(code[3]) / 2;
          box = {x - half_w, y - half_h, x + half_w, y + half_h};
        }
        const bool hidden = std::any_of(kept.begin(), kept.end(), [&](const Box& other) {
          return Overlap(box, other) > bound;
        });
        if (hidden) continue;
        kept.push_back(box);
        found.push_back({label, score(p), box});
        if (c.eta < 1 && bound > 0.5) bound *= c.eta;
      }
    }
    if (c.keep >= 0 && c.keep < static_cast<int64_t>(found.size())) {
      std::stable_sort(found.begin(), found.end(),
                       [](const Found& a, const Found& b) { return a.score > b.score; });
      found.resize(c.keep);
      std::stable_sort(found.begin(), found.end(),
                       [](const Found& a, const Found& b) { return a.label < b.label; });
    }
    for (const Found& f : found) {
      rows.insert(rows.end(), {static_cast<double>(image), static_cast<double>(f.label), f.score,
                               f.box.x0, f.box.y0, f.box.x1, f.box.y1});
    }
  }
  if (!rows.empty()) return rows;
  for (int64_t image = 0; image < c.images; ++image) {
    rows.insert(rows.end(), {static_cast<double>(image), -1, -1, -1, -1, -1, -1});
  }
  return rows;
}

class DetectionOutputLayerTest : public testing::TestWithParam<DeviceType> {};

// Two classes besides the background. Prior 0 hides prior 1 of class 1, which are the same box but
// for a tenth; prior 2 is elsewhere.
TEST_P(DetectionOutputLayerTest, ByHand) {
  const auto [device, type] = GetParam();
  LayerTester layer(Case{.images = 1, .priors = 3, .classes = 3, .code = "CORNER"}.Text(), device,
                    TypeTriple::Equal(type), {{1, 12}, {1, 9}, {1, 2, 12}});
  layer.SetBottom(0, {0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
  layer.SetBottom(1, {0.25, 0.5, 0.375, 0, 0.75, 0.25, 0, 0.5, 0.625});
  std::vector<double> priors{0, 0, 0.5, 0.5, 0, 0, 0.5, 0.5, 0.5, 0.5, 1, 1};
  priors.resize(24, 0.125);
  layer.SetBottom(2, priors);
  layer.Forward();
  EXPECT_EQ(layer.top().shape(), Shape({1, 1, 4, 7}));
  EXPECT_EQ(
      layer.Top(),
      std::vector<double>({0, 1, 0.75,  0,   0,   0.625, 0.5,   0, 1, 0.5,   0.5, 0.5, 1,   1.125,
                           0, 2, 0.625, 0.5, 0.5, 1,     1.125, 0, 2, 0.375, 0,   0,   0.5, 0.5}));
}

TEST_P(DetectionOutputLayerTest, AgreesWithTheDefinition) {
  const auto [device, type] = GetParam();
  for (const Case& c : Cases()) {
    LayerTester layer(c.Text(), device, TypeTriple::Equal(type), c.Shapes());
    layer.SetBottom(2, Priors(c.priors));
    for (int forward = 0; forward < 2; ++forward) {
      layer.Forward();
      const std::vector<double> expected =
          Detections(c, layer.Bottom(0), layer.Bottom(1), layer.Bottom(2));
      EXPECT_EQ(layer.top().shape(), Shape({1, 1, static_cast<int64_t>(expected.size()) / 7, 7}))
          << c.Text();
      ExpectNear(layer.Top(), expected, 2e-6, c.Text());
      // Other scores, with another number of detections.
      std::vector<double> scores = layer.Bottom(1);
      std::rotate(scores.begin(), scores.begin() + 5, scores.end());
      for (double& score : scores) score *= 0.5;
      layer.SetBottom(1, scores);
    }
  }
}

TEST_P(DetectionOutputLayerTest, NothingToDetect) {
  const auto [device, type] = GetParam();
  const Case none{.images = 0, .priors = 4, .classes = 2};
  LayerTester images(none.Text(), device, TypeTriple::Equal(type), none.Shapes());
  images.Forward();
  EXPECT_EQ(images.top().shape(), Shape({1, 1, 0, 7}));
  const Case empty{.images = 2, .priors = 0, .classes = 2};
  LayerTester priors(empty.Text(), device, TypeTriple::Equal(type), empty.Shapes());
  priors.Forward();
  EXPECT_EQ(priors.Top(),
            std::vector<double>({0, -1, -1, -1, -1, -1, -1, 1, -1, -1, -1, -1, -1, -1}));
}

INSTANTIATE_TEST_SUITE_P(All, DetectionOutputLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

// A score that is not a number makes no candidate.
TEST(DetectionOutputLayerScoreTest, NanIsNothing) {
  LayerTester layer(Case{.images = 1, .priors = 2, .classes = 2, .threshold = -1}.Text(),
                    Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{1, 8}, {1, 4}, {1, 2, 8}});
  layer.SetBottom(2, Priors(2));
  layer.SetBottom(1, {0, std::nan(""), 0, 0.5});
  layer.Forward();
  EXPECT_EQ(layer.top().shape(), Shape({1, 1, 1, 7}));
  EXPECT_EQ(layer.Top()[2], 0.5);
}

TEST(DetectionOutputLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto message = [](const std::string& text, const std::vector<Shape>& shapes) {
    return ErrorOf([&] {
      LayerTester("type: 'DetectionOutput' detection_output_param { " + text + " }",
                  Runtime::Get().cpu(), TypeTriple::Equal(kFloat), shapes);
    });
  };
  const std::vector<Shape> fits{{1, 8}, {1, 6}, {1, 2, 8}};
  EXPECT_EQ(message("num_classes: 3", fits), "");
  EXPECT_EQ(message("", fits), "tested (DetectionOutput): num_classes must be given and positive");
  EXPECT_EQ(message("num_classes: 3 background_label_id: 3", fits),
            "tested (DetectionOutput): background_label_id 3 is not one of the 3 classes; -1 means "
            "that there is no background");
  EXPECT_EQ(message("num_classes: 3 nms_param { eta: 0 }", fits),
            "tested (DetectionOutput): eta 0 must be greater than 0 and at most 1");
  EXPECT_EQ(message("num_classes: 3 nms_param { nms_threshold: -1 }", fits),
            "tested (DetectionOutput): nms_threshold -1 must not be negative");
  EXPECT_EQ(message("num_classes: 3 nms_param { soft_nms: true }", fits),
            "tested (DetectionOutput): soft_nms is not supported; remove it");
  EXPECT_EQ(message("num_classes: 3", {{1, 8}, {1, 6}, {1, 2, 7}}),
            "tested (DetectionOutput): priors of shape 1 2 7 (14) must have shape [1, 2, 4 P], as "
            "PriorBox makes them");
  EXPECT_EQ(message("num_classes: 3 share_location: false", fits),
            "tested (DetectionOutput): 2 priors need 24 locations for each image, but there are 8; "
            "see share_location");
  EXPECT_EQ(message("num_classes: 4", fits),
            "tested (DetectionOutput): 1 images, 2 priors and num_classes 4 need 8 scores for each "
            "image, but the scores have shape 1 6 (6)");
}

}  // namespace
}  // namespace caffe

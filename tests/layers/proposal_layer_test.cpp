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

struct Case {
  int64_t images, height, width;
  double stride = 16, base = 16, least = 16, overlap = 0.7;
  int64_t before = 6000, after = 300;
  std::vector<double> ratios{0.5, 1, 2}, scales{8, 16, 32};

  std::string Text() const {
    std::string text = Concat("type: 'Proposal' proposal_param { feat_stride: ", stride,
                              " base_size: ", base, " min_size: ", least, " nms_thresh: ", overlap,
                              " pre_nms_topn: ", before, " post_nms_topn: ", after);
    for (const double ratio : ratios) text += Concat(" ratio: ", ratio);
    for (const double scale : scales) text += Concat(" scale: ", scale);
    return text + " }";
  }
  int64_t anchors() const { return static_cast<int64_t>(ratios.size() * scales.size()); }
  std::vector<Shape> Shapes() const {
    return {{images, 2 * anchors(), height, width},
            {images, 4 * anchors(), height, width},
            {images, 3}};
  }
};

// generate_anchors of py-faster-rcnn, in its own steps.
std::vector<std::vector<double>> Anchors(const Case& c) {
  std::vector<std::vector<double>> anchors;
  const double x = 0.5 * (c.base - 1);
  for (const double ratio : c.ratios) {
    const double w = std::nearbyint(std::sqrt(c.base * c.base / ratio));
    const double h = std::nearbyint(w * ratio);
    for (const double scale : c.scales) {
      anchors.push_back({x - 0.5 * (w * scale - 1), x - 0.5 * (h * scale - 1),
                         x + 0.5 * (w * scale - 1), x + 0.5 * (h * scale - 1)});
    }
  }
  return anchors;
}

struct Found {
  double score;
  std::vector<double> box;
};

double Overlap(const std::vector<double>& a, const std::vector<double>& b) {
  const double w = std::min(a[2], b[2]) - std::max(a[0], b[0]) + 1;
  const double h = std::min(a[3], b[3]) - std::max(a[1], b[1]) + 1;
  const double both = std::max(0.0, w) * std::max(0.0, h);
  const auto area = [](const std::vector<double>& v) {
    return (v[2] - v[0] + 1) * (v[3] - v[1] + 1);
  };
  return both / (area(a) + area(b) - both);
}

// The proposals of all images: boxes with their image, and scores.
std::pair<std::vector<double>, std::vector<double>> Proposals(const Case& c, LayerTester& layer) {
  std::vector<double> rois, best_scores;
  const std::vector<double> scores = layer.Bottom(0), codes = layer.Bottom(1),
                            info = layer.Bottom(2);
  const std::vector<std::vector<double>> anchors = Anchors(c);
  const int64_t plane = c.height * c.width, count = c.anchors();
  for (int64_t image = 0; image < c.images; ++image) {
    std::vector<Found> found;
    for (int64_t cell = 0; cell < plane; ++cell) {
      for (int64_t a = 0; a < count; ++a) {
        const double dx = static_cast<double>(cell % c.width) * c.stride;
        const double dy = static_cast<double>(cell / c.width) * c.stride;
        const auto code = [&](int64_t i) {
          return codes[((image * count + a) * 4 + i) * plane + cell];
        };
        const double w = anchors[a][2] - anchors[a][0] + 1, h = anchors[a][3] - anchors[a][1] + 1;
        const double x = code(0) * w + anchors[a][0] + dx + 0.5 * w;
        const double y = code(1) * h + anchors[a][1] + dy + 0.5 * h;
        const double pw = std::exp(code(2)) * w, ph = std::exp(code(3)) * h;
        const double* of = &info[3 * image];
        const auto cut = [](double v, double end) { return std::clamp(v, 0.0, end - 1); };
        const std::vector<double> box{cut(x - 0.5 * pw, of[1]), cut(y - 0.5 * ph, of[0]),
                                      cut(x + 0.5 * pw, of[1]), cut(y + 0.5 * ph, of[0])};
        if (box[2] - box[0] + 1 < c.least * of[2] || box[3] - box[1] + 1 < c.least * of[2]) {
          continue;
        }
        found.push_back({scores[(image * 2 * count + count + a) * plane + cell], box});
      }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Found& f, const Found& g) { return f.score > g.score; });
    if (static_cast<int64_t>(found.size()) > c.before) found.resize(c.before);
    std::vector<Found> kept;
    for (const Found& f : found) {
      if (static_cast<int64_t>(kept.size()) == c.after) break;
      const bool hidden = std::any_of(kept.begin(), kept.end(), [&](const Found& better) {
        return Overlap(f.box, better.box) > c.overlap;
      });
      if (!hidden) kept.push_back(f);
    }
    for (const Found& f : kept) {
      rois.push_back(static_cast<double>(image));
      rois.insert(rois.end(), f.box.begin(), f.box.end());
      best_scores.push_back(f.score);
    }
  }
  return {rois, best_scores};
}

class ProposalLayerTest : public testing::TestWithParam<DeviceType> {};

// One anchor of 16 x 16 for each of two cells; nothing moves, and the second box is cut.
TEST_P(ProposalLayerTest, ByHand) {
  const auto [device, type] = GetParam();
  LayerTester layer(
      Case{.images = 1, .height = 1, .width = 2, .least = 4, .ratios = {1}, .scales = {1}}.Text(),
      device, TypeTriple::Equal(type), {{1, 2, 1, 2}, {1, 4, 1, 2}, {1, 3}}, 2);
  layer.SetBottom(0, {0.5, 0.25, 0.5, 0.75});
  layer.SetBottom(1, std::vector<double>(8, 0));
  layer.SetBottom(2, {20, 24, 1});
  layer.Forward();
  EXPECT_EQ(layer.top(0).shape(), Shape({2, 5}));
  EXPECT_EQ(layer.Top(0), std::vector<double>({0, 16, 0, 23, 16, 0, 0, 0, 16, 16}));
  EXPECT_EQ(layer.Top(1), std::vector<double>({0.75, 0.5}));
}

// The anchors that the comment of py-faster-rcnn's generate_anchors lists.
TEST(ProposalLayerAnchorTest, AreThoseOfTheModule) {
  const Case c{.images = 1, .height = 1, .width = 1};
  const std::vector<std::vector<double>> expected{
      {-84, -40, 99, 55}, {-176, -88, 191, 103},  {-360, -184, 375, 199},
      {-56, -56, 71, 71}, {-120, -120, 135, 135}, {-248, -248, 263, 263},
      {-36, -80, 51, 95}, {-80, -168, 95, 183},   {-168, -344, 183, 359}};
  EXPECT_EQ(Anchors(c), expected);
}

TEST_P(ProposalLayerTest, AgreesWithTheDefinition) {
  const auto [device, type] = GetParam();
  const Case cases[] = {
      {.images = 1, .height = 7, .width = 9},
      {.images = 2,
       .height = 5,
       .width = 6,
       .stride = 8,
       .base = 8,
       .least = 24,
       .overlap = 0.5,
       .before = 120,
       .after = 10,
       .ratios = {0.333, 1, 1.5},
       .scales = {2, 5}},
      // Nothing is large enough.
      {.images = 1, .height = 2, .width = 2, .least = 1000},
  };
  for (const Case& c : cases) {
    LayerTester layer(c.Text(), device, TypeTriple::Equal(type), c.Shapes(), 2);
    std::vector<double> info, codes = layer.Bottom(1);
    for (int64_t i = 0; i < c.images; ++i) {
      info.insert(info.end(), {110.0 - 20 * static_cast<double>(i), 140, 1 + 0.5 * i});
    }
    layer.SetBottom(2, info);
    for (double& code : codes) code *= 0.25;
    layer.SetBottom(1, codes);
    layer.Forward();
    const auto [rois, scores] = Proposals(c, layer);
    EXPECT_EQ(layer.top(0).shape(), Shape({static_cast<int64_t>(scores.size()), 5})) << c.Text();
    EXPECT_EQ(layer.top(1).shape(), Shape({static_cast<int64_t>(scores.size()), 1})) << c.Text();
    ExpectNear(layer.Top(0), rois, 2e-6, c.Text());
    ExpectNear(layer.Top(1), scores, 1e-7, c.Text());
  }
}

INSTANTIATE_TEST_SUITE_P(All, ProposalLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(ProposalLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto message = [](const std::string& text, const std::vector<Shape>& shapes) {
    return ErrorOf([&] {
      LayerTester("type: 'Proposal' proposal_param { " + text + " }", Runtime::Get().cpu(),
                  TypeTriple::Equal(kFloat), shapes);
    });
  };
  const std::vector<Shape> fits{{1, 18, 2, 3}, {1, 36, 2, 3}, {1, 3}};
  EXPECT_EQ(message("", fits), "");
  EXPECT_EQ(message("ratio: 0", fits), "tested (Proposal): ratio 0 must be positive");
  EXPECT_EQ(message("scale: -1", fits), "tested (Proposal): scale -1 must be positive");
  EXPECT_EQ(message("post_nms_topn: 0", fits),
            "tested (Proposal): pre_nms_topn 6000 and post_nms_topn 0 must be positive");
  EXPECT_EQ(message("ratio: 1", fits),
            "tested (Proposal): 3 anchors need scores of shape [N, 6, H, W], not 1 18 2 3 (108); "
            "see ratio and scale");
  EXPECT_EQ(message("", {{1, 18, 2, 3}, {1, 36, 3, 2}, {1, 3}}),
            "tested (Proposal): scores of shape 1 18 2 3 (108) need codes of shape [1, 36, 2, 3], "
            "not 1 36 3 2 (216)");
  EXPECT_EQ(message("", {{1, 18, 2, 3}, {1, 36, 2, 3}, {1, 2}}),
            "tested (Proposal): 1 images need their height, width and scale, [1, 3], but blob "
            "bottom2 has shape 1 2 (2)");
}

}  // namespace
}  // namespace caffe

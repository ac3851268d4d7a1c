#include <gtest/gtest.h>

#include <limits>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/layer/score_report.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

std::string AccuracyText(const std::string& more) {
  return "type: 'Accuracy' accuracy_param { " + more + " }";
}

class AccuracyLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(AccuracyLayerTest, AgreesWithTheRule) {
  const auto [device, type] = GetParam();
  struct Case {
    Shape scores;
    const char* more;
    int64_t top_k;
    double ignored;
  };
  // The third has more items than one work item adds.
  for (const Case& c : {Case{{50, 7}, "", 1, -1}, Case{{50, 7}, "top_k: 3", 3, -1},
                        Case{{900, 7}, "top_k: 2 ignore_label: 2", 2, 2},
                        Case{{2, 7, 3, 4}, "ignore_label: 0", 1, 0}}) {
    const int64_t inner = ShapeCount(c.scores, 2), items = c.scores[0] * inner;
    LayerTester layer(AccuracyText(c.more), device, TypeTriple::Equal(type), {c.scores, {items}},
                      2);
    std::vector<double> labels(items);
    for (int64_t i = 0; i < items; ++i) labels[i] = static_cast<double>(i * 5 % 6);  // never 6
    layer.SetBottom(1, labels);
    layer.Forward();
    const std::vector<double> x = layer.Bottom(0);
    double hits = 0, count = 0;
    std::vector<double> class_hits(7), class_count(7);
    for (int64_t i = 0; i < items; ++i) {
      if (labels[i] == c.ignored) continue;
      const int64_t label = static_cast<int64_t>(labels[i]);
      const int64_t first = i / inner * 7 * inner + i % inner;
      int64_t better = 0;
      for (int64_t k = 0; k < 7; ++k) {
        better += k != label && x[first + k * inner] >= x[first + label * inner];
      }
      hits += better < c.top_k;
      count += 1;
      class_hits[label] += better < c.top_k;
      class_count[label] += 1;
    }
    ExpectNear(layer.Top(0), {hits / count}, Tolerance(kFloat), c.more);
    for (int k = 0; k < 7; ++k) class_hits[k] /= class_count[k] > 0 ? class_count[k] : 1;
    ExpectNear(layer.Top(1), class_hits, Tolerance(kFloat), "per class");
    ASSERT_EQ(layer.top(1).type(), kFloat);
  }
}

TEST_P(AccuracyLayerTest, TiesCountAgainst) {
  const auto [device, type] = GetParam();
  LayerTester layer(AccuracyText(""), device, TypeTriple::Equal(type), {{2, 3}, {2}});
  layer.SetBottom(0, {1, 1, 1, 0, 2, 1});
  layer.SetBottom(1, {0, 1});
  layer.Forward();
  EXPECT_EQ(layer.Top(), std::vector<double>({0.5}));
}

TEST_P(AccuracyLayerTest, ScoresOfNaNAreMissesAndRankFirst) {
  const auto [device, type] = GetParam();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  struct Case {
    std::vector<double> scores;  // of three classes; the label is 1
    double first, second;        // whether the label is among the top 1 and the top 2
    bool lost;
  };
  for (const Case& c :
       {Case{{kNaN, kNaN, kNaN}, 0, 0, true}, Case{{1, kNaN, 2}, 0, 0, true},
        Case{{kNaN, 3, 2}, 0, 1, true}, Case{{kNaN, 3, kNaN}, 0, 0, true},
        Case{{1, kInfinity, 2}, 1, 1, true}, Case{{-kInfinity, 3, -kInfinity}, 1, 1, false},
        Case{{1, 3, 2}, 1, 1, false}}) {
    for (const int top_k : {1, 2, 3}) {
      LayerTester layer(AccuracyText("top_k: " + std::to_string(top_k)), device,
                        TypeTriple::Equal(type), {{1, 3}, {1}}, 2);
      layer.SetBottom(0, c.scores);
      layer.SetBottom(1, {1});
      layer.Forward();
      const bool nan = c.scores[1] != c.scores[1];
      const double hit = top_k == 1 ? c.first : top_k == 2 ? c.second : nan ? 0 : 1;
      EXPECT_EQ(layer.Top(0), std::vector<double>({hit})) << top_k << " of " << c.scores[0];
      EXPECT_EQ(layer.Top(1), std::vector<double>({0, hit, 0})) << top_k << " of " << c.scores[0];
      auto& report = dynamic_cast<ScoreReport&>(layer.layer());
      EXPECT_EQ(report.TakeLostScores(), c.lost);
      EXPECT_FALSE(report.TakeLostScores());
    }
  }
}

TEST_P(AccuracyLayerTest, NothingCounts) {
  const auto [device, type] = GetParam();
  LayerTester layer(AccuracyText("ignore_label: 255"), device, TypeTriple::Equal(type),
                    {{2, 3}, {2}});
  layer.SetBottom(1, {255, 255});
  layer.Forward();
  EXPECT_EQ(layer.Top(), std::vector<double>({0}));
}

INSTANTIATE_TEST_SUITE_P(All, AccuracyLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(AccuracyLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto make = [](const char* more, const Shape& labels) {
    LayerTester(AccuracyText(more), Runtime::Get().cpu(), TypeTriple::Equal(kFloat),
                {{4, 3}, labels});
  };
  EXPECT_NO_THROW(make("top_k: 3", {4, 1, 1}));
  EXPECT_THROW(make("top_k: 4", {4}), Error);
  EXPECT_THROW(make("top_k: 0", {4}), Error);
  EXPECT_THROW(make("", {3}), Error);
}

TEST(AccuracyLayerShapeTest, HasNoGradient) {
  LayerTester layer(AccuracyText(""), Runtime::Get().cpu(), TypeTriple::Equal(kFloat),
                    {{4, 3}, {4}});
  layer.SetBottom(1, {0, 1, 2, 0});
  layer.Forward();
  const BlobVec tops{&layer.top()}, bottoms{&layer.bottom(0), &layer.bottom(1)};
  EXPECT_NO_THROW(layer.layer().Backward(tops, {false, false}, bottoms));
  EXPECT_THROW(layer.layer().Backward(tops, {true, false}, bottoms), Error);
}

}  // namespace
}  // namespace caffe

// The three layers of R-FCN's online hard example mining.
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

std::string Annotator(int rois, int ignored = -1) {
  return Concat("type: 'BoxAnnotatorOHEM' box_annotator_ohem_param { roi_per_img: ", rois,
                " ignore_label: ", ignored, " }");
}

class OhemLayersTest : public testing::TestWithParam<DeviceType> {};

// Images 0 and 1; of the equal losses of image 0 the first remains.
TEST_P(OhemLayersTest, AnnotatorByHand) {
  const auto [device, type] = GetParam();
  LayerTester layer(Annotator(1, -1), device, TypeTriple::Equal(type), {{4, 5}, {4}, {4}, {4, 2}},
                    2);
  layer.SetBottom(0, {0, 1, 1, 2, 2, 1, 1, 1, 2, 2, 0, 1, 1, 2, 2, 1, 1, 1, 2, 2});
  layer.SetBottom(1, {0.5, 0.25, 0.5, 0.75});
  layer.SetBottom(2, {3, 4, 5, 6});
  layer.SetBottom(3, {1, 2, 3, 4, 5, 6, 7, 8});
  layer.Forward();
  EXPECT_EQ(layer.Top(0), std::vector<double>({3, -1, -1, 6}));
  EXPECT_EQ(layer.Top(1), std::vector<double>({1, 2, 0, 0, 0, 0, 7, 8}));
}

TEST_P(OhemLayersTest, AnnotatorAgreesWithSorting) {
  const auto [device, type] = GetParam();
  const int64_t regions = 60, channels = 3, inner = 6;
  LayerTester layer(
      Annotator(25, 7), device, TypeTriple::Equal(type),
      {{regions, 5}, {regions, 1, 2, 3}, {regions, 1, 2, 3}, {regions, channels, 2, 3}}, 2);
  std::vector<double> rois(regions * 5, 1);
  for (int64_t r = 0; r < regions; ++r) rois[5 * r] = r % 3;
  layer.SetBottom(0, rois);
  layer.Forward();
  const std::vector<double> losses = layer.Bottom(1);
  std::vector<int64_t> order(losses.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t i, int64_t j) { return losses[i] > losses[j]; });
  std::vector<int> left(3, 25);
  std::vector<double> labels(losses.size(), 7), weights(regions * channels * inner, 0);
  for (const int64_t i : order) {
    const int64_t region = i / inner;
    if (left[region % 3]-- <= 0) continue;
    labels[i] = layer.Bottom(2)[i];
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t at = (region * channels + c) * inner + i % inner;
      weights[at] = layer.Bottom(3)[at];
    }
  }
  EXPECT_EQ(layer.Top(0), labels);
  EXPECT_EQ(layer.Top(1), weights);
  LayerTester none(Annotator(1), device, TypeTriple::Equal(type), {{0, 5}, {0}, {0}, {0, 4}}, 2);
  none.Forward();
}

TEST_P(OhemLayersTest, SoftmaxGivesTheLossOfEachLabel) {
  const auto [device, type] = GetParam();
  const std::string parameters =
      "loss_param { ignore_label: 2 normalization: PRE_FIXED pre_fixed_normalizer: 8 }";
  const std::vector<Shape> shapes{{3, 4, 2}, {3, 2}};
  LayerTester layer("type: 'SoftmaxWithLossOHEM' " + parameters, device, TypeTriple::Equal(type),
                    shapes, 3);
  LayerTester plain("type: 'SoftmaxWithLoss' " + parameters, device, TypeTriple::Equal(type),
                    shapes, 2);
  for (LayerTester* one : {&layer, &plain}) {
    one->SetBottom(1, {0, 1, 2, 3, 3, 0});
    one->Forward();
    one->SetTopDiff(0, {1});
    for (int top = 1; top < (one == &layer ? 3 : 2); ++top) {
      one->SetTopDiff(top, std::vector<double>(one->top(top).count(), 0));
    }
    one->Backward();
  }
  EXPECT_EQ(layer.Top(0), plain.Top(0));
  EXPECT_EQ(layer.Top(1), plain.Top(1));
  EXPECT_EQ(layer.BottomDiff(0), plain.BottomDiff(0));
  const std::vector<double> x = layer.Bottom(0), labels = layer.Bottom(1);
  std::vector<double> losses(6);
  for (int64_t n = 0; n < 3; ++n) {
    for (int64_t s = 0; s < 2; ++s) {
      double sum = 0;
      for (int64_t c = 0; c < 4; ++c) sum += std::exp(x[(n * 4 + c) * 2 + s]);
      const auto label = static_cast<int64_t>(labels[n * 2 + s]);
      if (label != 2) losses[n * 2 + s] = std::log(sum) - x[(n * 4 + label) * 2 + s];
    }
  }
  EXPECT_EQ(layer.top(2).shape(), Shape({3, 2}));
  ExpectNear(layer.Top(2), losses, type == kDouble ? 1e-6 : Tolerance(type), "losses");
  EXPECT_NEAR(layer.Top(0)[0], std::accumulate(losses.begin(), losses.end(), 0.0) / 8,
              Tolerance(type));
}

TEST_P(OhemLayersTest, SmoothL1GivesTheLossOfEachRegion) {
  const auto [device, type] = GetParam();
  struct Case {
    const char* more;
    int weights;
    double divisor;
  };
  const Case cases[] = {{"", 1, 12},
                        {"loss_param { normalization: FULL }", 0, 12},
                        {"loss_param { normalization: BATCH_SIZE }", 1, 4},
                        {"loss_param { normalize: false }", 1, 4},
                        {"loss_param { normalization: NONE }", 1, 1},
                        {"loss_param { normalization: PRE_FIXED pre_fixed_normalizer: 32 } "
                         "smooth_l1_loss_param { sigma: 2 }",
                         1, 32}};
  for (const Case& c : cases) {
    const Shape shape{4, 5, 3};
    LayerTester layer(Concat("type: 'SmoothL1LossOHEM' ", c.more), device, TypeTriple::Equal(type),
                      std::vector<Shape>(2 + c.weights, shape), 2);
    layer.Forward();
    const double square = std::string(c.more).find("sigma") != std::string::npos ? 4 : 1;
    const std::vector<double> a = layer.Bottom(0), b = layer.Bottom(1);
    std::vector<double> losses(12), gradient(60);
    for (int64_t i = 0; i < 60; ++i) {
      const double u = c.weights > 0 ? layer.Bottom(2)[i] : 1, d = u * (a[i] - b[i]);
      const bool near = std::abs(d) < 1 / square;
      losses[i / 15 * 3 + i % 3] += near ? square * d * d / 2 : std::abs(d) - 0.5 / square;
      gradient[i] = u * (near ? square * d : std::copysign(1, d)) / c.divisor;
    }
    EXPECT_EQ(layer.top(1).shape(), Shape({4, 1, 3}));
    ExpectNear(layer.Top(1), losses, type == kDouble ? 1e-6 : Tolerance(type), c.more);
    const double sum = std::accumulate(losses.begin(), losses.end(), 0.0);
    ExpectNear(layer.Top(0), {sum / c.divisor}, Tolerance(type), c.more);
    layer.SetTopDiff(0, {1});
    layer.SetTopDiff(1, std::vector<double>(12, 0));
    layer.Backward();
    ExpectNear(layer.BottomDiff(0), gradient, Tolerance(type), c.more);
  }
}

INSTANTIATE_TEST_SUITE_P(All, OhemLayersTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(OhemLayersShapeTest, RefuseWhatDoesNotFit) {
  const auto message = [](const std::string& text, const std::vector<Shape>& shapes, int tops = 2) {
    return ErrorOf(
        [&] { LayerTester(text, Runtime::Get().cpu(), TypeTriple::Equal(kFloat), shapes, tops); });
  };
  const Shape rois{3, 5};
  EXPECT_EQ(message("type: 'BoxAnnotatorOHEM'", {rois, {3}, {3}, {3, 4}}),
            "tested (BoxAnnotatorOHEM): roi_per_img must be given and positive");
  EXPECT_EQ(message(Annotator(1), {{3, 4}, {3}, {3}, {3, 4}}),
            "tested (BoxAnnotatorOHEM): needs regions of shape [R, 5] (image, x0, y0, x1, y1), not "
            "3 4 (12)");
  EXPECT_EQ(message(Annotator(1), {rois, {4}, {3}, {3, 4}}),
            "tested (BoxAnnotatorOHEM): 3 regions need as many losses, but they have shape 4 (4)");
  EXPECT_EQ(message(Annotator(1), {rois, {3}, {4}, {3, 4}}),
            "tested (BoxAnnotatorOHEM): losses of shape 3 (3) need as many labels, but they have "
            "shape 4 (4)");
  EXPECT_EQ(message(Annotator(1), {rois, {3}, {3}, {3, 4, 2}}),
            "tested (BoxAnnotatorOHEM): losses of shape 3 (3) need weights of shape [3, C, …], but "
            "they have shape 3 4 2 (24)");
  EXPECT_EQ(message("type: 'SmoothL1LossOHEM'", {{3}, {3}}),
            "tested (SmoothL1LossOHEM): needs bottoms of at least 2 axes, not of shape 3 (3)");
}

}  // namespace
}  // namespace caffe

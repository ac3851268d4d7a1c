#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "caffe/core/error.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

// Layers with class labels refuse a label that is not the number of a class.
namespace caffe {
namespace {

constexpr int64_t kItems = 5, kClasses = 4;
const double kNan = std::numeric_limits<double>::quiet_NaN();

struct LabelLayer {
  const char* text;
  bool ignores, gradient;
  bool matrix = false;
};

const LabelLayer kLayers[] = {
    {"type: 'SoftmaxWithLoss'", true, true},    {"type: 'Accuracy'", true, false},
    {"type: 'HingeLoss'", false, true},         {"type: 'MultinomialLogisticLoss'", false, true},
    {"type: 'InfogainLoss'", true, true, true},
};

LayerTester Make(const LabelLayer& layer, const DeviceType& target, const std::string& more = "") {
  std::vector<Shape> shapes{{kItems, kClasses}, {kItems}};
  if (layer.matrix) shapes.push_back({kClasses, kClasses});
  LayerTester tester(layer.text + (" " + more), target.device, TypeTriple::Equal(target.type),
                     shapes);
  // Probabilities, for all that know no better.
  std::vector<double> x = tester.Bottom(0);
  for (double& value : x) value = std::abs(value) + 0.0625;
  tester.SetBottom(0, x);
  return tester;
}

// The error of the forward: on the CPU at once, on devices from CheckData.
std::string ErrorOf(LayerTester* tester) {
  try {
    tester->Forward();
    tester->layer().CheckData();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class ClassLabelsTest : public testing::TestWithParam<DeviceType> {};

TEST_P(ClassLabelsTest, AWrongLabelIsAnErrorWithLayerItemAndClasses) {
  for (const LabelLayer& layer : kLayers) {
    SCOPED_TRACE(layer.text);
    LayerTester tester = Make(layer, GetParam());
    const std::string where = Concat("tested (", tester.layer().type(), "): label ");
    for (const auto& [label, expected] : {std::pair<double, std::string>{7, "7"},
                                          {4, "4"},
                                          {255, "255"},
                                          {1000000, "1000000"},
                                          {-1, "-1"},
                                          {3e9, "3e+09"}}) {
      tester.SetBottom(1, {0, 3, 1, label, 2});
      const std::string error = ErrorOf(&tester);
      EXPECT_TRUE(Holds(error, where + expected + " of item 3 is not one of 4 classes (0 to 3)"));
      const bool ignore = error.find("{ ignore_label: " + expected + " }") != std::string::npos;
      EXPECT_EQ(ignore, layer.ignores && label < 1e9) << error;
    }
    for (const auto& [label, expected] : {std::pair<double, std::string>{2.5, "2.5"},
                                          {-0.5, "-0.5"},
                                          {kNan, "nan"},
                                          {std::numeric_limits<double>::infinity(), "inf"}}) {
      tester.SetBottom(1, {0, label, 1, 9, 2});
      EXPECT_TRUE(Holds(ErrorOf(&tester), where + expected +
                                              " of item 1 is not an integer; it must be one of 4 "
                                              "classes (0 to 3)"));
    }
    tester.SetBottom(1, {0, 3, 1, 0, 2});
    EXPECT_EQ(ErrorOf(&tester), "") << "an error is thrown once";
    EXPECT_TRUE(std::isfinite(tester.Top()[0]));
  }
}

// CheckData was not called for some iterations: the first wrong label is still reported.
TEST_P(ClassLabelsTest, OnADeviceAnErrorWaitsUntilItIsAskedFor) {
  if (GetParam().device->host_accessible()) GTEST_SKIP() << "the CPU's Forward throws at once";
  for (const LabelLayer& layer : kLayers) {
    SCOPED_TRACE(layer.text);
    LayerTester tester = Make(layer, GetParam());
    for (const double label : {0., 8., 9., 1.}) {
      tester.SetBottom(1, {0, 3, label, 1, 2});
      tester.Forward();
    }
    EXPECT_TRUE(std::isnan(tester.Top()[0]));
    try {
      tester.layer().CheckData();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_TRUE(Holds(error.what(), "label 8 of item 2"));
    }
    EXPECT_NO_THROW(tester.layer().CheckData());
    tester.Forward();
    EXPECT_TRUE(std::isfinite(tester.Top()[0]));
  }
}

TEST_P(ClassLabelsTest, OnADeviceAnItemWithAWrongLabelHasNoGradient) {
  if (GetParam().device->host_accessible()) GTEST_SKIP() << "the CPU's Forward throws at once";
  for (const LabelLayer& layer : kLayers) {
    if (!layer.gradient) continue;
    SCOPED_TRACE(layer.text);
    LayerTester tester = Make(layer, GetParam());
    const auto gradient = [&tester](double label) {
      tester.SetBottom(1, {0, 3, 1, label, 2});
      tester.Forward();
      tester.SetTopDiff(0, {1});
      tester.Backward();
      return tester.BottomDiff(0);
    };
    std::vector<double> expected = gradient(1);
    for (int c = 0; c < kClasses; ++c) expected[3 * kClasses + c] = 0;
    // VALID leaves it out of the divisor, too.
    if (layer.ignores) {
      for (double& value : expected) value *= 5. / 4;
    }
    ExpectNear(gradient(kNan), expected, Tolerance(GetParam().type), "gradient");
  }
}

// More labels than one work item adds, with images: the position is that of the pixel.
TEST_P(ClassLabelsTest, ManyLabels) {
  LayerTester tester("type: 'SoftmaxWithLoss'", GetParam().device,
                     TypeTriple::Equal(GetParam().type), {{3, 4, 30, 20}, {3, 30, 20}});
  std::vector<double> labels(1800, 2);
  labels[700] = 4;
  labels[1700] = 5;
  tester.SetBottom(1, labels);
  EXPECT_TRUE(Holds(ErrorOf(&tester), "label 4 of item 1 at position 100 is not one of"));
  labels[700] = labels[1700] = 3;
  tester.SetBottom(1, labels);
  EXPECT_EQ(ErrorOf(&tester), "");
}

TEST_P(ClassLabelsTest, AnIgnoredLabelIsNoError) {
  for (const LabelLayer& layer : kLayers) {
    if (!layer.ignores) continue;
    for (const double label : {-1., 255.}) {
      const std::string field = layer.gradient ? "loss_param" : "accuracy_param";
      LayerTester tester = Make(layer, GetParam(), Concat(field, " { ignore_label: ", label, " }"));
      tester.SetBottom(1, {0, label, 1, label, 2});
      EXPECT_EQ(ErrorOf(&tester), "") << layer.text;
      tester.SetBottom(1, {0, label + 0.5, 1, 0, 2});
      EXPECT_TRUE(Holds(ErrorOf(&tester), "is not an integer")) << layer.text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ClassLabelsTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

#include <gtest/gtest.h>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

constexpr char kFillers[] =
    " weight_filler { type: 'uniform' min: -0.5 max: 0.5 }"
    " bias_filler { type: 'uniform' min: -0.5 max: 0.5 }";

std::string Text(const std::string& type, const std::string& parameters) {
  return "type: '" + type + "' convolution_param { " + parameters + kFillers + " }";
}

struct Case {
  std::string parameters;
  Shape x;
  std::string outputs;  // num_output of a Convolution, where the parameters do not say it
};

std::vector<Case> Cases() {
  return {
      {"kernel_size: 3 pad: 1", {2, 6, 7, 9}, "num_output: 6"},
      {"num_output: 6 kernel_size: 3 pad: 1 stride: 2 bias_term: false", {2, 6, 8, 7}, ""},
      {"num_output: 12 kernel_size: 3 dilation: 2", {2, 6, 9, 8}, ""},
      {"num_output: 5 kernel_h: 1 kernel_w: 5 pad_h: 0 pad_w: 2", {1, 5, 4, 9}, ""},
      {"num_output: 1 kernel_size: 2", {3, 1, 3, 3}, ""},
      {"kernel_size: 3", {2, 4, 11}, "num_output: 4"},
      {"kernel_size: 3 axis: 2", {2, 3, 4, 6}, "num_output: 4"},
  };
}

class DepthwiseConvolutionLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(DepthwiseConvolutionLayerTest, ByHand) {
  const auto [device, type] = GetParam();
  LayerTester layer(
      "type: 'DepthwiseConvolution' convolution_param { num_output: 4 kernel_h: 1 kernel_w: 2 }",
      device, TypeTriple::Equal(type), {{1, 2, 1, 3}});
  ASSERT_EQ(layer.layer().blobs()[0]->shape(), Shape({4, 1, 1, 2}));
  layer.layer().blobs()[0]->SetData({1, 0, 1, 1, 2, -1, 0, 3});
  layer.layer().blobs()[1]->SetData({0, 10, 0, -1});
  layer.SetBottom(0, {1, 2, 4, -1, 3, 5});
  layer.Forward();
  EXPECT_EQ(layer.Top(), std::vector<double>({1, 2, 13, 16, -5, 1, 8, 14}));
  layer.SetTopDiff(0, {1, 0, 0, 2, 1, 1, 0, 1});
  for (const auto& blob : layer.layer().blobs()) {
    blob->SetDiff(std::vector<double>(blob->count(), 0));
  }
  layer.Backward();
  EXPECT_EQ(layer.BottomDiff(0), std::vector<double>({1, 2, 2, 2, 1, 2}));
  EXPECT_EQ(layer.layer().blobs()[0]->DiffAsDouble(),
            std::vector<double>({1, 2, 4, 8, 2, 8, 3, 5}));
  EXPECT_EQ(layer.layer().blobs()[1]->DiffAsDouble(), std::vector<double>({1, 2, 2, 1}));
}

// The same operators as a Convolution with groups: the same bits, forward and backward.
TEST_P(DepthwiseConvolutionLayerTest, EqualsAConvolutionWithGroups) {
  const auto [device, type] = GetParam();
  for (const char* name : {"DepthwiseConvolution", "ConvolutionDepthwise"}) {
    for (const Case& c : Cases()) {
      const int64_t channels = c.x[c.parameters.find("axis: 2") == std::string::npos ? 1 : 2];
      LayerTester layer(Text(name, c.parameters), device, TypeTriple::Equal(type), {c.x});
      LayerTester reference(
          Text("Convolution", Concat(c.parameters, " ", c.outputs, " group: ", channels)), device,
          TypeTriple::Equal(type), {c.x});
      EXPECT_EQ(layer.layer().type(), name);
      for (LayerTester* each : {&layer, &reference}) {
        each->Forward();
        each->RandomTopDiff();
        for (const auto& blob : each->layer().blobs()) {
          blob->SetDiff(std::vector<double>(blob->count(), 0));
        }
        each->Backward();
      }
      EXPECT_EQ(layer.top().shape(), reference.top().shape()) << c.parameters;
      EXPECT_EQ(layer.Top(), reference.Top()) << c.parameters;
      EXPECT_EQ(layer.BottomDiff(0), reference.BottomDiff(0)) << c.parameters;
      ASSERT_EQ(layer.layer().blobs().size(), reference.layer().blobs().size());
      for (size_t i = 0; i < layer.layer().blobs().size(); ++i) {
        const BlobBase &blob = *layer.layer().blobs()[i], &other = *reference.layer().blobs()[i];
        EXPECT_EQ(blob.shape(), other.shape()) << c.parameters;
        EXPECT_EQ(blob.DiffAsDouble(), other.DiffAsDouble()) << c.parameters;
      }
    }
  }
}

TEST_P(DepthwiseConvolutionLayerTest, SeveralBottomsAndNoImages) {
  const auto [device, type] = GetParam();
  LayerTester layer(Text("ConvolutionDepthwise", "kernel_size: 3"), device, TypeTriple::Equal(type),
                    {{1, 3, 4, 4}, {1, 3, 4, 4}}, 2);
  layer.SetBottom(1, layer.Bottom(0));
  layer.Forward();
  EXPECT_EQ(layer.Top(0), layer.Top(1));
  LayerTester none(Text("ConvolutionDepthwise", "kernel_size: 3"), device, TypeTriple::Equal(type),
                   {{0, 3, 4, 4}});
  none.Forward();
  none.Backward();
  EXPECT_EQ(none.top().shape(), Shape({0, 3, 2, 2}));
}

INSTANTIATE_TEST_SUITE_P(All, DepthwiseConvolutionLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(DepthwiseConvolutionLayerGradientTest, AgreesWithDifferences) {
  for (const Case& c : Cases()) {
    LayerTester(Text("DepthwiseConvolution", c.parameters), Runtime::Get().cpu(),
                TypeTriple::Equal(kDouble), {c.x})
        .CheckGradient();
  }
}

TEST(DepthwiseConvolutionLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto message = [](const std::string& type, const std::string& text, const Shape& x) {
    return ErrorOf([&] {
      LayerTester(Text(type, text), Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {x});
    });
  };
  EXPECT_EQ(message("DepthwiseConvolution", "num_output: 4 kernel_size: 3 group: 4", {1, 4, 5, 5}),
            "");
  EXPECT_EQ(message("ConvolutionDepthwise", "num_output: 4 kernel_size: 3 group: 2", {1, 4, 5, 5}),
            "tested (ConvolutionDepthwise): group 2 is not the number of input channels, 4; remove "
            "it, or use type Convolution");
  EXPECT_EQ(message("DepthwiseConvolution", "num_output: 6 kernel_size: 3", {1, 4, 5, 5}),
            "tested (DepthwiseConvolution): num_output 6 is not divisible by group 4");
  EXPECT_EQ(message("DepthwiseConvolution", "kernel_size: 3", {1, 0, 5, 5}),
            "tested (DepthwiseConvolution): the bottom of shape 1 0 5 5 (0) has no channels");
}

}  // namespace
}  // namespace caffe

#include <gtest/gtest.h>

#include <cmath>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/proto_io.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

std::string LossText(const std::string& more) { return "type: 'InfogainLoss' " + more; }

std::vector<double> Labels(int64_t count, int64_t channels) {
  std::vector<double> labels(count);
  for (int64_t i = 0; i < count; ++i) labels[i] = static_cast<double>(i * 3 % channels);
  return labels;
}

class InfogainLossLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(InfogainLossLayerTest, ForwardAndBackward) {
  const auto [device, type] = GetParam();
  struct Case {
    Shape scores, labels;
    const char* more;
    double ignored;
    double divisor;  // 0: the number of labels that count
    int axis = 1;
  };
  const Case cases[] = {
      {{8, 5}, {8}, "", -1, 0},
      {{8, 5}, {8, 1, 1, 1}, "loss_param { ignore_label: 3 }", 3, 0},
      {{600, 5}, {600}, "loss_param { ignore_label: 1 normalization: FULL }", 1, 600},
      {{2, 5, 3, 4}, {2, 3, 4}, "loss_param { normalization: BATCH_SIZE }", -1, 2},
      {{2, 5, 3, 4}, {2, 3, 4}, "loss_param { normalization: NONE }", -1, 1},
      {{2, 3, 5}, {2, 3}, "infogain_loss_param { axis: -1 }", -1, 0, 2},
      {{8, 5}, {8}, "loss_param { normalization: PRE_FIXED pre_fixed_normalizer: 2.5 }", -1, 2.5},
  };
  for (const Case& c : cases) {
    LayerTester layer(LossText(c.more), device, TypeTriple::Equal(type),
                      {c.scores, c.labels, {5, 5}}, 2);
    const int64_t outer = ShapeCount(c.scores, 0, c.axis), inner = ShapeCount(c.scores, c.axis + 1);
    const std::vector<double> labels = Labels(outer * inner, 5);
    layer.SetBottom(1, labels);
    layer.Forward();
    const std::vector<double> x = layer.Bottom(0), h = layer.Bottom(2);
    std::vector<double> p(x.size()), gradient(x.size());
    double loss = 0, valid = 0;
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t s = 0; s < inner; ++s) {
        const int64_t first = o * 5 * inner + s;
        double sum = 0, row = 0;
        for (int k = 0; k < 5; ++k) sum += std::exp(x[first + k * inner]);
        for (int k = 0; k < 5; ++k) p[first + k * inner] = std::exp(x[first + k * inner]) / sum;
        const double label = labels[o * inner + s];
        if (label == c.ignored) continue;
        ++valid;
        const double* gain = &h[static_cast<int64_t>(label) * 5];
        for (int k = 0; k < 5; ++k) {
          loss -= gain[k] * std::log(p[first + k * inner]);
          row += gain[k];
        }
        for (int k = 0; k < 5; ++k)
          gradient[first + k * inner] = p[first + k * inner] * row - gain[k];
      }
    }
    const double divisor = c.divisor > 0 ? c.divisor : valid;
    ExpectNear(layer.Top(0), {loss / divisor}, Tolerance(type), c.more);
    ExpectNear(layer.Top(1), p, Tolerance(type), "p");
    layer.SetTopDiff(0, {8});
    layer.Backward();
    for (double& value : gradient) value *= 8 / divisor;
    ExpectNear(layer.BottomDiff(0), gradient, 4 * Tolerance(type), c.more);
  }
}

// With the identity it is the loss of SoftmaxWithLoss; a logarithm is at least log(10^-20).
TEST_P(InfogainLossLayerTest, ExtremeScores) {
  const auto [device, type] = GetParam();
  LayerTester layer(LossText(""), device, TypeTriple::Equal(type), {{2, 3}, {2}, {3, 3}});
  layer.SetBottom(0, {10000, -10000, 0, 10000, 0, 0});
  layer.SetBottom(1, {1, 0});
  layer.SetBottom(2, {1, 0, 0, 0, 1, 0, 0, 0, 1});
  layer.Forward();
  ExpectNear(layer.Top(), {46.05170185988091 / 2}, Tolerance(type), "the largest loss and none");
  layer.SetTopDiff(0, {2});
  layer.Backward();
  ExpectNear(layer.BottomDiff(0), {1, -1, 0, 0, 0, 0}, Tolerance(type), "gradient");
}

TEST_P(InfogainLossLayerTest, NothingCounts) {
  const auto [device, type] = GetParam();
  for (const int64_t items : {3, 0}) {
    LayerTester layer(LossText("loss_param { ignore_label: 2 }"), device, TypeTriple::Equal(type),
                      {{items, 4}, {items}, {4, 4}});
    layer.SetBottom(1, std::vector<double>(items, 2));
    layer.Forward();
    EXPECT_EQ(layer.Top(), std::vector<double>({0}));
    layer.SetTopDiff(0, {1});
    layer.Backward();
    EXPECT_EQ(layer.BottomDiff(0), std::vector<double>(4 * items, 0));
  }
}

TEST_P(InfogainLossLayerTest, ReadsTheMatrixFromAFile) {
  const auto [device, type] = GetParam();
  const TemporaryFolder folder;
  BlobProto proto;
  for (int i = 0; i < 4; ++i) proto.mutable_shape()->add_dim(i < 2 ? 1 : 3);
  for (int i = 0; i < 9; ++i) proto.add_data(static_cast<float>(i) / 8);
  WriteBinaryProto(folder / "h.binaryproto", proto);
  const std::string text =
      LossText(Concat("infogain_loss_param { source: '", folder / "h.binaryproto", "' }"));
  LayerTester from_file(text, device, TypeTriple::Equal(type), {{4, 3}, {4}});
  LayerTester from_bottom(LossText(""), device, TypeTriple::Equal(type), {{4, 3}, {4}, {3, 3}});
  std::vector<double> h(9);
  for (int i = 0; i < 9; ++i) h[i] = i / 8.;
  from_bottom.SetBottom(2, h);
  for (LayerTester* layer : {&from_file, &from_bottom}) {
    layer->SetBottom(1, {0, 2, 1, 1});
    layer->Forward();
    layer->SetTopDiff(0, {1});
    layer->Backward();
  }
  EXPECT_EQ(from_file.Top(), from_bottom.Top());
  EXPECT_EQ(from_file.BottomDiff(0), from_bottom.BottomDiff(0));
  // A bottom is used where both are given.
  std::filesystem::remove(folder / "h.binaryproto");
  EXPECT_NO_THROW(LayerTester(text, device, TypeTriple::Equal(type), {{4, 3}, {4}, {3, 3}}));
}

INSTANTIATE_TEST_SUITE_P(All, InfogainLossLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(InfogainLossLayerGradientTest, AgreesWithDifferences) {
  for (const char* more : {"", "loss_param { ignore_label: 3 }"}) {
    for (const Shape& shape : {Shape{4, 5}, Shape{2, 5, 2, 3}}) {
      LayerTester layer(LossText(more), Runtime::Get().cpu(), TypeTriple::Equal(kDouble),
                        {shape, {shape[0], ShapeCount(shape, 2)}, {5, 5}});
      layer.SetBottom(1, Labels(layer.bottom(1).count(), 5));
      layer.CheckGradient();
    }
  }
}

TEST(InfogainLossLayerShapeTest, RefusesWhatDoesNotFit) {
  const auto error = [](const std::string& more, const std::vector<Shape>& shapes) -> std::string {
    try {
      LayerTester(LossText(more), Runtime::Get().cpu(), TypeTriple::Equal(kFloat), shapes);
    } catch (const Error& thrown) {
      return thrown.what();
    }
    return "";
  };
  EXPECT_EQ(error("", {{2, 3, 4}, {2, 4}, {9}}), "");
  EXPECT_TRUE(Holds(error("", {{2, 3}, {2}}), "tested (InfogainLoss): needs a matrix"));
  EXPECT_TRUE(
      Holds(error("infogain_loss_param { source: '/nowhere/h' }", {{2, 3}, {2}}), "/nowhere/h"));
  EXPECT_TRUE(Holds(error("", {{2, 3}, {2}, {3, 4}}), "must be 3 x 3"));
  EXPECT_TRUE(Holds(error("", {{2, 3, 4}, {2}, {3, 3}}), "need 8 labels, but there are 2"));
  EXPECT_TRUE(Holds(error("loss_param { normalize: true }", {{2, 3}, {2}, {3, 3}}), "normalize"));
}

}  // namespace
}  // namespace caffe

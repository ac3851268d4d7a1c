// Affine maps that follow a convolution, an inner product or a deconvolution, folded into its
// weights: against the layer in double and the maps' formulas, for every type.
#include "caffe/layer/folded_weights.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "caffe/core/requant.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/layer/weighted_layer.hpp"
#include "caffe/layer/work.hpp"
#include "caffe/memory/workspace.hpp"
#include "caffe/quant/range.hpp"
#include "support/codes.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

using Numbers = std::vector<double>;

std::shared_ptr<BlobBase> MasterBlob(const Numbers& values) {
  auto blob = MakeBlob(kFloat, Runtime::Get().cpu(), {static_cast<int64_t>(values.size())}, "map");
  blob->SetData(values);
  return blob;
}

// A BatchNorm with global statistics, and a Scale with a bias, over `channels`.
struct Maps {
  explicit Maps(int64_t channels)
      : mean(MasterBlob(TestNumbers(channels, 1))),
        variance(MasterBlob(TestNumbers(channels, 2))),
        gamma(MasterBlob(TestNumbers(channels, 3))),
        beta(MasterBlob(TestNumbers(channels, 4))) {
    Numbers values = variance->DataAsDouble();
    for (double& value : values) value = value * value + 0.25;
    variance->SetData(values);
    Affine norm{1, channels, {mean.get(), variance.get()}, nullptr};
    norm.evaluate = [this](Numbers* scale, Numbers* shift) {
      *scale = variance->DataAsDouble();
      *shift = mean->DataAsDouble();
      for (size_t c = 0; c < scale->size(); ++c) {
        (*scale)[c] = 1 / std::sqrt((*scale)[c] + 1e-5);
        (*shift)[c] *= -(*scale)[c];
      }
    };
    Affine scale{1, channels, {gamma.get(), beta.get()}, nullptr};
    scale.evaluate = [this](Numbers* a, Numbers* b) {
      *a = gamma->DataAsDouble();
      *b = beta->DataAsDouble();
    };
    list = {norm, scale};
  }
  // By the formulas of the layers.
  Numbers Apply(Numbers y, int64_t inner) const {
    const Numbers m = mean->DataAsDouble(), v = variance->DataAsDouble();
    const Numbers a = gamma->DataAsDouble(), b = beta->DataAsDouble();
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t c = i / inner % m.size();
      y[i] = a[c] * ((y[i] - m[c]) / std::sqrt(v[c] + 1e-5)) + b[c];
    }
    return y;
  }

  std::shared_ptr<BlobBase> mean, variance, gamma, beta;
  std::vector<Affine> list;
};

const Shape kImages{2, 4, 5, 6};
const int64_t kChannels = 6;
const std::string kFillers =
    " weight_filler { type: 'uniform' min: -1 max: 1 } bias_filler { type: 'uniform' min: -1 max: "
    "1 "
    "} }";
const std::string kConvolutions[] = {
    "type: 'Convolution' convolution_param { num_output: 6 kernel_size: 3 pad: 1 group: 2" +
        kFillers,
    "type: 'Convolution' convolution_param { num_output: 6 kernel_size: 1 bias_term: false" +
        kFillers,
    "type: 'InnerProduct' inner_product_param { num_output: 6" + kFillers,
    "type: 'InnerProduct' inner_product_param { num_output: 6 transpose: true" + kFillers,
};
const std::string kDeconvolutions[] = {
    "type: 'Deconvolution' convolution_param { num_output: 6 kernel_size: 3 stride: 2 group: 2" +
        kFillers,
    "type: 'Deconvolution' convolution_param { num_output: 6 kernel_size: 2 bias_term: false" +
        kFillers,
};

WeightedLayer& Weighted(LayerTester& tester) {
  return dynamic_cast<WeightedLayer&>(tester.layer());
}

// The layer in double on the CPU, with the numbers x and the weights of `tester`.
Numbers Reference(const std::string& text, LayerTester& tester, const Numbers& x) {
  LayerTester exact("phase: TEST " + text, Runtime::Get().cpu(), TypeTriple::Equal(kDouble),
                    {kImages});
  exact.SetBottom(0, x);
  for (size_t i = 0; i < tester.layer().blobs().size(); ++i) {
    exact.layer().blobs()[i]->SetData(tester.layer().blobs()[i]->DataAsDouble());
  }
  exact.Forward();
  return exact.Top();
}

class FoldedWeightsTest : public testing::TestWithParam<DeviceType> {
 protected:
  // Runs an operator with the maps folded in into the layer's top.
  static void Run(LayerTester& tester, const JointWeights::Groups& weights,
                  const Epilogue& epilogue = {}) {
    const auto op = Weighted(tester).MakeOp(epilogue, weights, false, {});
    Workspace workspace(tester.layer().device());
    op->Prepare();
    WeightedOp::Operands operands;
    operands.x = tester.bottom().device_data();
    operands.y = tester.top().mutable_device_data();
    operands.workspace = workspace.Need(op->workspace_bytes());
    op->Run(operands);
    tester.layer().device()->Synchronize();
  }
};

TEST_P(FoldedWeightsTest, EqualsTheMapsBehindTheLayer) {
  const auto [device, type] = GetParam();
  std::vector<std::string> texts(std::begin(kConvolutions), std::end(kConvolutions));
  texts.insert(texts.end(), std::begin(kDeconvolutions), std::end(kDeconvolutions));
  for (const std::string& text : texts) {
    LayerTester tester("phase: TEST " + text, device, TypeTriple::Equal(type), {kImages});
    Maps maps(kChannels);
    const int64_t inner = tester.top().count(2);
    const auto weights = Weighted(tester).MakeWeights({maps.list});
    const auto check = [&, type = type](const std::string& what) {
      const Numbers expected = maps.Apply(Reference(text, tester, tester.Bottom(0)), inner);
      double largest = 1;
      for (const double value : expected) largest = std::max(largest, std::abs(value));
      // Relative to the largest value, whose terms the type rounds.
      ExpectNear(tester.Top(), expected, 4 * largest * Tolerance(type), text + what);
    };
    Run(tester, weights);
    check("");
    // Each source is followed.
    for (BlobBase* source : {maps.mean.get(), maps.gamma.get(), tester.layer().blobs()[0].get()}) {
      Numbers values = source->DataAsDouble();
      for (double& value : values) value *= -0.5;
      source->SetData(values);
      Run(tester, weights);
      check(" after a change of " + source->name());
    }
    // The layer itself computes without the maps.
    tester.Forward();
    const Numbers plain = Reference(text, tester, tester.Bottom(0));
    ExpectNear(tester.Top(), plain, 20 * Tolerance(type), text + " unfolded");
  }
}

TEST_P(FoldedWeightsTest, WithAnActivationBehindThem) {
  const auto [device, type] = GetParam();
  const std::string& text = kConvolutions[0];
  LayerTester tester("phase: TEST " + text, device, TypeTriple::Equal(type), {kImages});
  Maps maps(kChannels);
  Epilogue epilogue;
  epilogue.stages = {kPlainReLU};
  Run(tester, Weighted(tester).MakeWeights({maps.list}), epilogue);
  Numbers expected = maps.Apply(Reference(text, tester, tester.Bottom(0)), tester.top().count(2));
  for (double& value : expected) value = std::max(value, 0.0);
  ExpectNear(tester.Top(), expected, 40 * Tolerance(type), text);
}

INSTANTIATE_TEST_SUITE_P(All, FoldedWeightsTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

class FoldedCodesTest : public FoldedWeightsTest {};

TEST_P(FoldedCodesTest, ScalesFollowFromTheFoldedWeights) {
  const auto [device, type] = GetParam();
  for (const std::string& text : kConvolutions) {
    LayerTester tester("phase: TEST " + text, device, TypeTriple::Equal(type), {kImages});
    Maps maps(kChannels);
    const QuantRange in = AffineRange({-1, 1}, type);
    SetCodesOf(&tester.bottom(), TestCodes(tester.bottom().count(), type));
    tester.bottom().set_range(in);
    Numbers x;
    for (const int64_t code : CodesOf(tester.bottom())) {
      x.push_back(static_cast<double>(code - in.zero) * in.scale);
    }
    const Numbers expected = maps.Apply(Reference(text, tester, x), tester.top().count(2));
    double largest = 0;
    for (const double value : expected) largest = std::max(largest, std::abs(value));
    const QuantRange out = AffineRange({-largest, largest}, type);
    const auto weights = Weighted(tester).MakeWeights({maps.list});
    weights[0]->SetRanges(in, out);
    Run(tester, weights);
    Numbers y;
    for (const int64_t code : CodesOf(tester.top())) {
      y.push_back(static_cast<double>(code - out.zero) * out.scale);
    }
    const double tolerance = (type == kQuant8 ? 0.03 : 2e-4) * largest;
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_NEAR(y[i], expected[i], tolerance) << text << ", element " << i;
    }
    // One scale for each channel, of the largest folded weight or bias.
    EXPECT_EQ(weights[0]->scales().size(), static_cast<size_t>(kChannels));
  }
}

INSTANTIATE_TEST_SUITE_P(All, FoldedCodesTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

TEST(FoldedByHandTest, EveryLayout) {
  Device* cpu = Runtime::Get().cpu();
  auto weights = MakeBlob(kDouble, cpu, {2, 3}, "w"), bias = MakeBlob(kDouble, cpu, {3}, "b");
  weights->SetData({1, 2, 3, 4, 5, 6});
  bias->SetData({10, 20, 30});
  Affine one{1, 3, {}, [](Numbers* a, Numbers* b) {
               *a = {2, 3, 4};
               *b = {1, 1, 1};
             }};
  Affine all{1, 1, {}, [](Numbers* a, Numbers* b) {
               *a = {10};
               *b = {-1};
             }};
  // [K, N]: channels are columns.
  FoldedWeights columns(weights.get(), bias.get(), {3, 1, 2}, {one, all});
  EXPECT_TRUE(columns.Refresh());
  EXPECT_FALSE(columns.Refresh());
  EXPECT_EQ(columns.weights().DataAsDouble(), (Numbers{20, 60, 120, 80, 150, 240}));
  EXPECT_EQ(columns.bias().DataAsDouble(), (Numbers{209, 609, 1209}));
  bias->SetData({0, 0, 0});
  EXPECT_TRUE(columns.Refresh());
  EXPECT_EQ(columns.bias().DataAsDouble(), (Numbers{9, 9, 9}));
  // A deconvolution of 6 channels in 2 groups:
  // [group 2, outer 1, channels 3, inner 1].
  Affine six{1, 6, {}, [](Numbers* a, Numbers* b) {
               *a = {1, 10, 100, 2, 20, 200};
               *b = Numbers(6, 0);
             }};
  FoldedWeights groups(weights.get(), nullptr, {6, 2, 1}, {six});
  groups.Refresh();
  EXPECT_EQ(groups.weights().DataAsDouble(), (Numbers{1, 20, 300, 8, 100, 1200}));
  EXPECT_EQ(groups.bias().DataAsDouble(), Numbers(6, 0));
  FoldedWeights wrong(weights.get(), bias.get(), {3, 1, 2}, {six});
  EXPECT_THROW(wrong.Refresh(), Error);
}

}  // namespace
}  // namespace caffe

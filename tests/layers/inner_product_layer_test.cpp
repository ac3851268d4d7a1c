#include <gtest/gtest.h>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

std::string InnerProductText(const std::string& more, int num_output = 10) {
  return Concat("type: 'InnerProduct' inner_product_param { num_output: ", num_output,
                " weight_filler { type: 'uniform' min: -0.5 max: 0.5 }"
                " bias_filler { type: 'uniform' min: -1 max: 1 } ",
                more, " }");
}

// x [m, k] times w [n, k] ([k, n] if transposed), plus b [n] unless that is empty.
std::vector<double> Product(const std::vector<double>& x, const std::vector<double>& w,
                            const std::vector<double>& b, int64_t m, int64_t n, int64_t k,
                            bool transpose) {
  std::vector<double> y(m * n);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = b.empty() ? 0 : b[j];
      for (int64_t p = 0; p < k; ++p) {
        sum += x[i * k + p] * w[transpose ? p * n + j : j * k + p];
      }
      y[i * n + j] = sum;
    }
  }
  return y;
}

class InnerProductLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(InnerProductLayerTest, Forward) {
  const auto [device, type] = GetParam();
  for (bool transpose : {false, true}) {
    for (bool bias : {false, true}) {
      LayerTester layer(InnerProductText(Concat("transpose: ", transpose ? "true" : "false",
                                                " bias_term: ", bias ? "true" : "false")),
                        device, TypeTriple::Equal(type), {{7, 3, 4, 5}});
      layer.Forward();
      ASSERT_EQ(layer.top().shape(), Shape({7, 10}));
      const auto& blobs = layer.layer().blobs();
      ASSERT_EQ(blobs.size(), bias ? 2u : 1u);
      EXPECT_EQ(blobs[0]->shape(), transpose ? Shape({60, 10}) : Shape({10, 60}));
      EXPECT_EQ(blobs[0]->type(), type == kDouble ? kDouble : kFloat);
      ExpectNear(
          layer.Top(),
          Product(layer.Bottom(0), blobs[0]->DataAsDouble(),
                  bias ? blobs[1]->DataAsDouble() : std::vector<double>(), 7, 10, 60, transpose),
          2 * Tolerance(type), "y");
    }
  }
}

TEST_P(InnerProductLayerTest, Backward) {
  const auto [device, type] = GetParam();
  for (bool transpose : {false, true}) {
    LayerTester layer(InnerProductText(transpose ? "transpose: true" : ""), device,
                      TypeTriple::Equal(type), {{7, 60}});
    layer.Forward();
    layer.RandomTopDiff();
    auto& blobs = layer.layer().blobs();
    for (auto& blob : blobs) blob->SetDiff(std::vector<double>(blob->count(), 0.5));
    layer.Backward();
    const std::vector<double> d = layer.top().DiffAsDouble(), x = layer.Bottom(0);
    const std::vector<double> w = blobs[0]->DataAsDouble();
    std::vector<double> x_diff(7 * 60), w_diff(600, 0.5), b_diff(10, 0.5);
    for (int i = 0; i < 7; ++i) {
      for (int j = 0; j < 10; ++j) {
        b_diff[j] += d[i * 10 + j];
        for (int p = 0; p < 60; ++p) {
          const int at = transpose ? p * 10 + j : j * 60 + p;
          x_diff[i * 60 + p] += d[i * 10 + j] * w[at];
          w_diff[at] += d[i * 10 + j] * x[i * 60 + p];
        }
      }
    }
    ExpectNear(layer.BottomDiff(0), x_diff, 2 * Tolerance(type), "dE/dx");
    // Added in the type of masters, for every type of blobs.
    const double master = type == kDouble ? Tolerance(kDouble) : Tolerance(kFloat);
    ExpectNear(blobs[0]->DiffAsDouble(), w_diff, master, "dE/dw");
    ExpectNear(blobs[1]->DiffAsDouble(), b_diff, master, "dE/db");
  }
}

TEST_P(InnerProductLayerTest, FollowsItsParameters) {
  const auto [device, type] = GetParam();
  LayerTester layer(InnerProductText("bias_term: false", 2), device, TypeTriple::Equal(type),
                    {{1, 2}});
  layer.SetBottom(0, {1, 2});
  layer.layer().blobs()[0]->SetData({1, 0, 0, 1});
  layer.Forward();
  EXPECT_EQ(layer.Top(), std::vector<double>({1, 2}));
  layer.layer().blobs()[0]->SetData({0, 1, 2, 0});
  layer.Forward();
  EXPECT_EQ(layer.Top(), std::vector<double>({2, 2}));
}

TEST_P(InnerProductLayerTest, FusedReLU) {
  const auto [device, type] = GetParam();
  LayerTester layer("phase: TEST " + InnerProductText(""), device, TypeTriple::Equal(type),
                    {{5, 12}});
  layer.Forward();
  std::vector<double> expected = layer.Top();
  for (double& y : expected) y = y > 0 ? y : 0;
  layer.ForwardWith({{}, {kPlainReLU}});
  ExpectNear(layer.Top(), expected, Tolerance(type), "y");
}

INSTANTIATE_TEST_SUITE_P(All, InnerProductLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(InnerProductLayerGradientTest, AgreesWithDifferences) {
  for (const char* more : {"", "transpose: true", "axis: 2 bias_term: false", "axis: -1"}) {
    LayerTester layer(InnerProductText(more, 4), Runtime::Get().cpu(), TypeTriple::Equal(kDouble),
                      {{2, 3, 5}});
    layer.CheckGradient();
  }
}

TEST(InnerProductLayerShapeTest, KeepsAxesBeforeAxis) {
  LayerTester layer(InnerProductText("axis: 2"), Runtime::Get().cpu(), TypeTriple::Equal(kFloat),
                    {{2, 3, 4, 5}});
  EXPECT_EQ(layer.top().shape(), Shape({2, 3, 10}));
  layer.bottom().Reshape({6, 1, 20});
  layer.Forward();
  EXPECT_EQ(layer.top().shape(), Shape({6, 1, 10}));
}

TEST(InnerProductLayerShapeTest, RefusesWhatDoesNotFit) {
  Device* cpu = Runtime::Get().cpu();
  EXPECT_THROW(LayerTester("type: 'InnerProduct'", cpu, TypeTriple::Equal(kFloat), {{2, 3}}),
               Error);
  LayerTester layer(InnerProductText(""), cpu, TypeTriple::Equal(kFloat), {{2, 3}});
  layer.bottom().Reshape({2, 4});
  EXPECT_THROW(layer.Forward(), Error);
}

}  // namespace
}  // namespace caffe

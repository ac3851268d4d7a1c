#include <gtest/gtest.h>

#include <cmath>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/data_error.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

std::string Text(bool across, bool shared, const std::string& more = "") {
  return Concat("type: 'Normalize' norm_param { across_spatial: ", across,
                " channel_shared: ", shared, " ", more, " }");
}

const std::vector<Shape>& Shapes() {
  static const std::vector<Shape> shapes{{2, 3, 4, 5}, {3, 40, 1, 1}, {2, 7}, {1, 1, 9, 33}};
  return shapes;
}

class NormalizeLayerTest : public testing::TestWithParam<DeviceType> {};

// 3, 4 and 5, 12: norms 5 and 13.
TEST_P(NormalizeLayerTest, ByHand) {
  const auto [device, type] = GetParam();
  LayerTester layer(Text(false, false, "eps: 0 scale_filler { type: 'constant' value: 20 }"),
                    device, TypeTriple::Equal(type), {{1, 2, 1, 2}});
  layer.SetBottom(0, {3, 5, 4, 12});
  layer.layer().blobs()[0]->SetData({20, 10});
  layer.Forward();
  ExpectNear(layer.Top(), {12, 20 * 5 / 13.0, 8, 10 * 12 / 13.0}, Tolerance(type), "y");
}

TEST_P(NormalizeLayerTest, AgreesWithTheFormula) {
  const auto [device, type] = GetParam();
  const double eps = static_cast<float>(0.125);
  for (const Shape& shape : Shapes()) {
    for (int kind = 0; kind < 4; ++kind) {
      const bool across = kind % 2 == 1, shared = kind / 2 == 1;
      const std::string text = Text(across, shared, "eps: 0.125");
      LayerTester layer(text, device, TypeTriple::Equal(type), {shape});
      const int64_t channels = shape[1];
      const int64_t inner = layer.bottom().count() / shape[0] / channels;
      layer.layer().set_param_propagate_down(0, true);
      const std::vector<double> s = TestNumbers(shared ? 1 : channels, 5);
      layer.layer().blobs()[0]->SetData(s);
      layer.Forward();
      layer.RandomTopDiff();
      const std::vector<double> d = layer.top().DiffAsDouble(), x = layer.Bottom(0);
      layer.Backward();
      std::vector<double> y(x.size()), x_diff(x.size()), s_diff(s.size());
      const int64_t groups = across ? 1 : inner, members = across ? inner : 1;
      for (int64_t n = 0; n < shape[0]; ++n) {
        for (int64_t g = 0; g < groups; ++g) {
          double sum = eps, dot = 0;
          const auto each = [&](auto f) {
            for (int64_t c = 0; c < channels; ++c) {
              for (int64_t m = 0; m < members; ++m) {
                f((n * channels + c) * inner + g + m, shared ? 0 : c);
              }
            }
          };
          each([&](int64_t i, int64_t) { sum += x[i] * x[i]; });
          const double norm = std::sqrt(sum);
          each([&](int64_t i, int64_t c) {
            y[i] = s[c] * x[i] / norm;
            dot += s[c] * x[i] * d[i];
            s_diff[c] += x[i] * d[i] / norm;
          });
          each([&](int64_t i, int64_t c) {
            x_diff[i] = s[c] * d[i] / norm - x[i] * dot / (norm * sum);
          });
        }
      }
      const std::string what = text + " " + ShapeString(shape);
      ExpectNear(layer.Top(), y, Tolerance(type), "y of " + what);
      ExpectNear(layer.BottomDiff(0), x_diff, Tolerance(type), "dE/dx of " + what);
      ExpectNear(layer.layer().blobs()[0]->DiffAsDouble(), s_diff, type == kDouble ? 1e-12 : 2e-5,
                 "dE/ds of " + what);
    }
  }
}

// The default eps keeps zeros.
TEST_P(NormalizeLayerTest, ZerosStay) {
  const auto [device, type] = GetParam();
  LayerTester layer(Text(true, true), device, TypeTriple::Equal(type), {{1, 2, 2, 2}});
  layer.SetBottom(0, std::vector<double>(8, 0));
  layer.Forward();
  EXPECT_EQ(layer.Top(), std::vector<double>(8, 0));
  LayerTester none(Text(false, true), device, TypeTriple::Equal(type), {{0, 2, 2, 2}});
  none.Forward();
  none.Backward();
}

INSTANTIATE_TEST_SUITE_P(All, NormalizeLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(NormalizeLayerGradientTest, AgreesWithDifferences) {
  for (const Shape& shape : Shapes()) {
    for (int kind = 0; kind < 4; ++kind) {
      LayerTester layer(
          Text(kind % 2 == 1, kind / 2 == 1, "scale_filler { type: 'uniform' min: 0.5 max: 2 }"),
          Runtime::Get().cpu(), TypeTriple::Equal(kDouble), {shape});
      layer.CheckGradient();
    }
  }
}

TEST(NormalizeLayerShapeTest, RefusesWhatDoesNotFit) {
  EXPECT_EQ(ErrorOf([] {
              LayerTester(Text(true, true), Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{4}});
            }),
            "tested (Normalize): needs a bottom of at least 2 axes; it has shape 4 (4)");
  EXPECT_EQ(ErrorOf([] {
              LayerTester(Text(true, true, "eps: -1"), Runtime::Get().cpu(),
                          TypeTriple::Equal(kFloat), {{4, 2}});
            }),
            "tested (Normalize): eps -1 must not be negative");
}

}  // namespace
}  // namespace caffe

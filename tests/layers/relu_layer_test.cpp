#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

class ReLULayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(ReLULayerTest, Forward) {
  const auto [device, type] = GetParam();
  for (double slope : {0.0, 0.25}) {
    LayerTester relu(Concat("type: 'ReLU' relu_param { negative_slope: ", slope, " }"), device,
                     TypeTriple::Equal(type), {{3, 5, 7, 11}});
    relu.Forward();
    std::vector<double> expected = relu.Bottom(0);
    for (double& x : expected) x = x > 0 ? x : slope * x;
    ExpectNear(relu.Top(), expected, Tolerance(type), "y");
  }
}

TEST_P(ReLULayerTest, Backward) {
  const auto [device, type] = GetParam();
  for (double slope : {0.0, 0.25}) {
    LayerTester relu(Concat("type: 'ReLU' relu_param { negative_slope: ", slope, " }"), device,
                     TypeTriple::Equal(type), {{64, 300}});
    relu.Forward();
    relu.RandomTopDiff();
    relu.Backward();
    const std::vector<double> x = relu.Bottom(0);
    std::vector<double> expected = relu.top().DiffAsDouble();
    for (size_t i = 0; i < x.size(); ++i) expected[i] *= x[i] > 0 ? 1 : slope;
    ExpectNear(relu.BottomDiff(0), expected, Tolerance(type), "dE/dx");
  }
}

// Else a net that diverged would look healthy.
TEST_P(ReLULayerTest, KeepsWhatIsNoNumber) {
  const auto [device, type] = GetParam();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (double slope : {0.0, 0.25}) {
    LayerTester relu(Concat("type: 'ReLU' relu_param { negative_slope: ", slope, " }"), device,
                     TypeTriple::Equal(type), {{37}});
    std::vector<double> x = relu.Bottom(0);
    for (size_t i : {0, 5, 17, 36}) x[i] = nan;
    x[1] = infinity;
    x[2] = -infinity;
    relu.SetBottom(0, x);
    const auto check = [&](const std::vector<double>& y) {
      for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_EQ(std::isnan(y[i]), std::isnan(x[i])) << "element " << i << ", slope " << slope;
        if (!std::isnan(x[i])) {
          EXPECT_EQ(y[i], x[i] > 0 ? x[i] : slope == 0 ? 0 : slope * x[i]);
        }
      }
    };
    relu.Forward();
    check(relu.Top());
    const BlobVec blob{&relu.bottom()};
    relu.layer().Forward(blob, blob);
    check(relu.Bottom(0));
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReLULayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(ReLULayerGradientTest, AgreesWithDifferences) {
  for (const char* slope : {"0", "0.3"}) {
    LayerTester relu(Concat("type: 'ReLU' relu_param { negative_slope: ", slope, " }"),
                     Runtime::Get().cpu(), TypeTriple::Equal(kDouble), {{2, 3, 4, 5}});
    relu.CheckGradient(1e-5, 1e-6, 0, 1e-3);
  }
}

// Codes on every device equal those of exact arithmetic on the host, for every code.
class QuantizedReLULayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(QuantizedReLULayerTest, RescalesEveryCode) {
  const auto [device, type] = GetParam();
  const int64_t codes = type.info().code_max + 1;
  for (double slope : {0.0, 0.25}) {
    LayerTester relu(Concat("type: 'ReLU' relu_param { negative_slope: ", slope, " }"), device,
                     TypeTriple::Equal(type), {{codes}});
    const QuantRange x{0.05, static_cast<int32_t>(codes / 3), true};
    const QuantRange y{0.03, static_cast<int32_t>(codes / 10), true};
    relu.bottom().set_range(x);
    relu.top().set_range(y);
    char* bottom = static_cast<char*>(relu.bottom().mutable_host_data());
    for (int64_t code = 0; code < codes; ++code) {
      std::memcpy(bottom + code * type.bytes(), &code, type.bytes());  // little endian
    }
    relu.Forward();
    const char* top = static_cast<const char*>(relu.top().host_data());
    for (int64_t code = 0; code < codes; ++code) {
      int64_t actual = 0;
      std::memcpy(&actual, top + code * type.bytes(), type.bytes());
      const int64_t v = code - x.zero;
      const Requant factor = Requant::FromReal((v > 0 ? 1 : slope) * x.scale / y.scale);
      // 128-bit arithmetic: round half away from zero, then clamp.
      const __int128 product = static_cast<__int128>(std::abs(v)) * factor.multiplier;
      const __int128 rounded =
          factor.multiplier == 0
              ? 0
              : (product + (static_cast<__int128>(1) << (factor.shift - 1))) >> factor.shift;
      const int64_t value = static_cast<int64_t>(v > 0 ? rounded : -rounded) + y.zero;
      const int64_t expected = std::clamp<int64_t>(value, 0, codes - 1);
      ASSERT_EQ(actual, expected) << "code " << code << ", slope " << slope;
    }
  }
}

TEST_P(QuantizedReLULayerTest, BackwardIsAnError) {
  const auto [device, type] = GetParam();
  LayerTester relu("type: 'ReLU'", device, TypeTriple::Equal(type), {{4}});
  relu.bottom().set_range({0.5, 3, true});
  relu.top().set_range({0.5, 3, true});
  relu.Forward();
  EXPECT_THROW(relu.Backward(), Error);
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedReLULayerTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

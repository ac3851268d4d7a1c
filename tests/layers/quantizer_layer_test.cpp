#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

TypeTriple Cast(DataType in, DataType out) {
  return {in == kDouble || out == kDouble ? kDouble : kFloat, in, out};
}

class QuantizerLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(QuantizerLayerTest, CastsBetweenFloatKinds) {
  const auto [device, in] = GetParam();
  for (DataType out : FloatTypes()) {
    if (out == kDouble && !device->info().fp64) continue;
    LayerTester cast("type: 'Quantizer'", device, Cast(in, out), {{3, 5, 7}});
    std::vector<double> x = TestNumbers(105, 3);
    for (double& v : x) v *= 1.2345678;
    cast.SetBottom(0, x);
    cast.Forward();
    // The library's own conversion, tested on its own, of what the bottom holds.
    auto expected = MakeBlob(out, Runtime::Get().cpu(), {105});
    expected->SetData(cast.Bottom(0));
    EXPECT_EQ(cast.Top(), expected->DataAsDouble()) << in.name() << " to " << out.name();
    cast.RandomTopDiff();
    cast.Backward();
    ExpectNear(cast.BottomDiff(0), cast.top().DiffAsDouble(), Tolerance(in), "dE/dx");
  }
}

TEST_P(QuantizerLayerTest, QuantizesAndDequantizes) {
  const auto [device, in] = GetParam();
  for (DataType out : {kQuant8, kQuant16}) {
    const double scale = 2.0 / out.info().code_max;
    const QuantRange range{scale, out.info().code_max / 3, true};
    std::vector<double> x{0, 1e30, -1e30, std::numeric_limits<double>::infinity(), NAN,
                          scale * 2.5, -scale * 2.5, 0.1, -0.3};
    if (in == kHalf) x[1] = 60000, x[2] = -60000;
    const int64_t count = static_cast<int64_t>(x.size());
    LayerTester quantize("type: 'Quantizer'", device, Cast(in, out), {{count}});
    quantize.top().set_range(range);
    quantize.SetBottom(0, x);
    quantize.Forward();
    LayerTester back("type: 'Quantizer'", device, Cast(out, in), {{count}});
    back.bottom().set_range(range);
    std::copy_n(static_cast<const char*>(quantize.top().host_data()), quantize.top().bytes(),
                static_cast<char*>(back.bottom().mutable_host_data()));
    back.Forward();
    const double low = scale * (0 - range.zero);
    const double high = scale * (out.info().code_max - range.zero);
    std::vector<double> held = quantize.Bottom(0), expected;
    for (double v : held) {
      expected.push_back(std::isnan(v) ? 0 : std::clamp(v, low, high));
    }
    ExpectNear(back.Top(), expected, 0.51 * scale + Tolerance(in), "dequantized");
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantizerLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(QuantizerLayerErrorTest, UnobservedRangesAreErrors) {
  LayerTester quantize("type: 'Quantizer'", Runtime::Get().cpu(), Cast(kFloat, kQuant8), {{4}});
  EXPECT_THROW(quantize.Forward(), Error);
}

}  // namespace
}  // namespace caffe

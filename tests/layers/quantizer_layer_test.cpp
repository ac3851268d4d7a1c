#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

TypeTriple Cast(DataType in, DataType out) {
  return {in == kDouble || out == kDouble ? kDouble : kFloat, in, out};
}

std::vector<int> Codes(const BlobBase& blob) {
  std::vector<int> codes(blob.count());
  for (int64_t i = 0; i < blob.count(); ++i) {
    codes[i] = blob.type() == kQuant8 ? static_cast<const uint8_t*>(blob.host_data())[i]
                                      : static_cast<const uint16_t*>(blob.host_data())[i];
  }
  return codes;
}

// The parameter's type is that of the bottom.
class QuantizerLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(QuantizerLayerTest, CastsBetweenFloatKinds) {
  const auto [device, type] = GetParam();
  for (DataType out : FloatTypes()) {
    if (out == kDouble && !device->info().fp64) continue;
    LayerTester layer("type: 'Quantizer'", device, Cast(type, out), {{3, 100}});
    std::vector<double> values(300);
    for (int i = 0; i < 300; ++i) values[i] = (i - 150) * 1.000123 / 7;
    layer.SetBottom(0, values);
    layer.Forward();
    const auto expected = MakeBlob(out, Runtime::Get().cpu(), {300});
    expected->SetData(layer.Bottom(0));
    EXPECT_EQ(layer.Top(), expected->DataAsDouble()) << out.name();
    layer.top().SetDiff(values);
    layer.Backward();
    const auto gradient = MakeBlob(type, Runtime::Get().cpu(), {300});
    gradient->SetData(layer.top().DiffAsDouble());
    EXPECT_EQ(layer.BottomDiff(0), gradient->DataAsDouble()) << out.name();
  }
}

TEST_P(QuantizerLayerTest, QuantizesAndBack) {
  const auto [device, type] = GetParam();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (DataType out : {kQuant8, kQuant16}) {
    LayerTester layer("type: 'Quantizer'", device, Cast(type, out), {{9}});
    EXPECT_THROW(layer.Forward(), Error) << "a range that was never observed";
    layer.top().set_range({0.25, 100, true});
    layer.SetBottom(0, {0, 1, -1, 0.125, -0.125, 0.375, 8192, -8192, nan});
    layer.Forward();
    const int top = out.info().code_max;
    EXPECT_EQ(Codes(layer.top()),
              std::vector<int>({100, 104, 96, 101, 99, 102, std::min(32868, top), 0, 100}));
    EXPECT_THROW(layer.Backward(), Error);

    LayerTester back("type: 'Quantizer'", device, Cast(out, type), {{9}});
    back.bottom().set_range({0.25, 100, true});
    std::memcpy(back.bottom().mutable_host_data(), layer.top().host_data(), layer.top().bytes());
    back.Forward();
    const double high = 0.25 * (std::min(32868, top) - 100);
    const auto expected = MakeBlob(type, Runtime::Get().cpu(), {9});
    expected->SetData({0, 1, -1, 0.25, -0.25, 0.5, high, -25, 0});
    EXPECT_EQ(back.Top(), expected->DataAsDouble());
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantizerLayerTest, testing::ValuesIn(DevicesAndTypes(FloatTypes())),
                         [](const auto& info) { return TestName(info.param); });

TEST(QuantizerLayerRequantizeTest, ChangesTheRange) {
  for (Device* device : TestDevices()) {
    LayerTester layer("type: 'Quantizer'", device, Cast(kQuant8, kQuant16), {{3}});
    layer.bottom().set_range({0.5, 10, true});
    layer.top().set_range({0.125, 1000, true});
    const uint8_t codes[] = {10, 13, 0};
    std::memcpy(layer.bottom().mutable_host_data(), codes, 3);
    layer.Forward();
    EXPECT_EQ(Codes(layer.top()), std::vector<int>({1000, 1012, 960})) << device->info().id;
  }
}

}  // namespace
}  // namespace caffe

#include <gtest/gtest.h>

#include "caffe/device/runtime.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

class ChannelGainLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(ChannelGainLayerTest, ForwardAndBackward) {
  const auto [device, type] = GetParam();
  LayerTester layer("type: 'ChannelGain'", device, TypeTriple::Equal(type), {{2, 3, 5, 7}});
  BlobBase& gains = *layer.layer().blobs()[0];
  EXPECT_EQ(gains.DataAsDouble(), (std::vector<double>{1, 1, 1})) << "default filler";
  const std::vector<double> g{0.5, -2, 0};
  gains.SetData(g);
  layer.Forward();
  layer.RandomTopDiff();
  gains.SetDiff({1, 1, 1});  // the gradient is added
  layer.Backward();
  const std::vector<double> x = layer.Bottom(0), d = layer.top().DiffAsDouble();
  std::vector<double> y(x.size()), x_diff(x.size()), g_diff(3, 1);
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = i / 35 % 3;
    y[i] = g[c] * x[i];
    x_diff[i] = g[c] * d[i];
    g_diff[c] += x[i] * d[i];
  }
  ExpectNear(layer.Top(), y, Tolerance(type), "y");
  ExpectNear(layer.BottomDiff(0), x_diff, Tolerance(type), "dE/dx");
  ExpectNear(gains.DiffAsDouble(), g_diff, type == kDouble ? 1e-12 : 2e-5, "dE/dg");
}

INSTANTIATE_TEST_SUITE_P(All, ChannelGainLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(ChannelGainGradientTest, AgreesWithDifferences) {
  LayerTester layer("type: 'ChannelGain' channel_gain_param { filler { type: 'gaussian' } }",
                    Runtime::Get().cpu(), TypeTriple::Equal(kDouble), {{2, 3, 2, 2}});
  layer.CheckGradient();
}

TEST(ChannelGainShapeTest, RefusesABottomWithoutChannels) {
  const std::string message = ErrorOf([] {
    LayerTester("type: 'ChannelGain'", Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {{4}});
  });
  EXPECT_TRUE(Holds(message, "at least 2 axes; it has shape 4"));
}

}  // namespace
}  // namespace caffe

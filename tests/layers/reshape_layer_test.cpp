#include <gtest/gtest.h>

#include <cstring>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

LayerTester MakeReshape(const std::string& more, Device* device = Runtime::Get().cpu(),
                        DataType type = kFloat) {
  return LayerTester("type: 'Reshape' reshape_param { " + more + " }", device,
                     TypeTriple::Equal(type), {{2, 3, 4, 5}});
}

Shape Reshaped(const std::string& more) { return MakeReshape(more).top().shape(); }

class ReshapeLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(ReshapeLayerTest, SharesDataAndDiff) {
  const auto [device, type] = GetParam();
  LayerTester layer = MakeReshape("shape { dim: 0 dim: -1 dim: 10 }", device, type);
  layer.bottom().device_data();
  device->ResetCounters();
  layer.Forward();
  EXPECT_EQ(device->counters().launches + device->counters().copies, 0);
  EXPECT_EQ(layer.top().shape(), Shape({2, 6, 10}));
  EXPECT_EQ(layer.Top(), layer.Bottom(0));
  layer.RandomTopDiff();
  layer.Backward();
  EXPECT_EQ(layer.BottomDiff(0), layer.top().DiffAsDouble());
}

INSTANTIATE_TEST_SUITE_P(All, ReshapeLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(ReshapeLayerShapeTest, CopiesInfersAndReplaces) {
  EXPECT_EQ(Reshaped("shape { dim: 0 dim: 0 dim: -1 }"), Shape({2, 3, 20}));
  EXPECT_EQ(Reshaped("shape { dim: -1 }"), Shape({120}));
  EXPECT_EQ(Reshaped("shape { dim: 8 dim: 15 }"), Shape({8, 15}));
  EXPECT_EQ(Reshaped("shape { dim: -1 } axis: 1"), Shape({2, 60}));
  EXPECT_EQ(Reshaped("shape { dim: 6 dim: 2 } axis: 1 num_axes: 2"), Shape({2, 6, 2, 5}));
  EXPECT_EQ(Reshaped("shape { dim: -1 } axis: -3 num_axes: 1"), Shape({2, 3, 4, 5}));
  EXPECT_EQ(Reshaped("shape { dim: 1 dim: 1 } axis: -1"), Shape({2, 3, 4, 5, 1, 1}));
  EXPECT_EQ(Reshaped("shape { dim: 1 } axis: 1 num_axes: 0"), Shape({2, 1, 3, 4, 5}));
  EXPECT_EQ(Reshaped("shape { dim: 0 dim: 20 } axis: 1"), Shape({2, 3, 20}));
  EXPECT_EQ(Reshaped("shape {} axis: 1 num_axes: 0"), Shape({2, 3, 4, 5}));
}

TEST(ReshapeLayerErrorsTest, NameShapes) {
  const auto error = [](const std::string& more) { return ErrorOf([&] { MakeReshape(more); }); };
  EXPECT_TRUE(Holds(error("shape { dim: 7 }"),
                    "tested (Reshape): a bottom of shape 2 3 4 5 (120) "
                    "cannot become 7 (7)"));
  EXPECT_TRUE(Holds(error("shape { dim: 7 dim: -1 }"), "cannot be divided"));
  EXPECT_TRUE(Holds(error("shape { dim: -1 dim: -1 }"), "one -1, not several"));
  EXPECT_TRUE(Holds(error("shape { dim: -2 }"), "shape holds -2"));
  EXPECT_TRUE(Holds(error("shape { dim: 120 dim: 1 dim: 1 dim: 1 dim: 0 }"), "copies axis 4"));
  EXPECT_TRUE(Holds(error("axis: 5"), "axis 5 does not fit"));
  EXPECT_TRUE(Holds(error("axis: -6"), "axis -6 does not fit"));
  EXPECT_TRUE(Holds(error("axis: 3 num_axes: 2"), "num_axes 2 from axis 3 on exceed"));
  EXPECT_TRUE(Holds(error("num_axes: -2"), "num_axes -2 must be"));
}

TEST(ReshapeLayerGradientTest, AgreesWithDifferences) {
  MakeReshape("shape { dim: 4 dim: -1 }", Runtime::Get().cpu(), kDouble).CheckGradient();
}

class QuantizedReshapeLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(QuantizedReshapeLayerTest, CarriesCodesAndRange) {
  const auto [device, type] = GetParam();
  LayerTester layer = MakeReshape("shape { dim: -1 }", device, type);
  char* codes = static_cast<char*>(layer.bottom().mutable_host_data());
  for (int64_t i = 0; i < layer.bottom().bytes(); ++i) codes[i] = static_cast<char>(5 * i);
  layer.bottom().set_range({0.25, 17, true});
  layer.Forward();
  EXPECT_EQ(layer.top().range().scale, 0.25);
  EXPECT_EQ(layer.top().range().zero, 17);
  EXPECT_TRUE(layer.top().range().observed);
  EXPECT_EQ(
      std::memcmp(layer.top().host_data(), layer.bottom().host_data(), layer.bottom().bytes()), 0);
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedReshapeLayerTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

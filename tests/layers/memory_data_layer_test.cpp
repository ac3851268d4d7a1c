#include "caffe/layers/memory_data_layer.hpp"

#include <gtest/gtest.h>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "io/temporary_folder.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

constexpr char kText[] =
    "type: 'MemoryData' memory_data_param { batch_size: 2 channels: 1 height: 1 width: 3 }";

class MemoryDataLayerTest : public testing::TestWithParam<DeviceType> {};

TEST_P(MemoryDataLayerTest, WalksThroughTheArrays) {
  const auto [device, type] = GetParam();
  LayerTester layer(kText, device, TypeTriple::Equal(type), {}, 2);
  EXPECT_EQ(layer.top(0).shape(), Shape({2, 1, 1, 3}));
  EXPECT_EQ(layer.top(1).shape(), Shape({2}));
  EXPECT_EQ(layer.top(1).type(), kFloat);
  EXPECT_THROW(layer.Forward(), Error) << "no data yet";
  std::vector<float> data(12), labels{7, 8, 9, 10};
  for (int i = 0; i < 12; ++i) data[i] = 0.5f * i;
  auto& memory = dynamic_cast<MemoryData&>(layer.layer());
  memory.Reset(data.data(), labels.data(), 4);
  for (int round = 0; round < 2; ++round) {
    layer.Forward();
    EXPECT_EQ(layer.Top(0), std::vector<double>({0, 0.5, 1, 1.5, 2, 2.5}));
    EXPECT_EQ(layer.Top(1), std::vector<double>({7, 8}));
    layer.Forward();
    EXPECT_EQ(layer.Top(0), std::vector<double>({3, 3.5, 4, 4.5, 5, 5.5}));
    EXPECT_EQ(layer.Top(1), std::vector<double>({9, 10}));
  }
  EXPECT_THROW(memory.Reset(data.data(), labels.data(), 3), Error);
  EXPECT_THROW(memory.Reset(data.data(), labels.data(), 0), Error);
}

INSTANTIATE_TEST_SUITE_P(All, MemoryDataLayerTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(MemoryDataLayerWarningTest, TransformParamIsNotApplied) {
  const std::vector<float> data{1, 2, 3, 4, 5, 6}, labels{0, 1};
  const auto log = [&](const std::string& more) {
    testing::internal::CaptureStderr();
    LayerTester layer(kText + more, Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {}, 2);
    auto& memory = dynamic_cast<MemoryData&>(layer.layer());
    for (int i = 0; i < 3; ++i) memory.Reset(data.data(), labels.data(), 2);
    layer.Forward();
    EXPECT_EQ(layer.Top(0), std::vector<double>({1, 2, 3, 4, 5, 6}));
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(log(""), "");
  // Once for each layer, not for each process or array.
  for (int i = 0; i < 2; ++i) {
    const std::string text = log(" transform_param { scale: 0.5 }");
    const std::string warning = "tested (MemoryData): transform_param is not applied to arrays";
    EXPECT_TRUE(Holds(text, warning));
    EXPECT_EQ(text.find(warning), text.rfind(warning)) << text;
  }
}

// A saved position comes from a file: a negative one would read before the arrays.
TEST(MemoryDataLayerStateTest, ADamagedPositionIsAnError) {
  const std::vector<float> data(12), labels(4);
  LayerTester layer(kText, Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {}, 2);
  dynamic_cast<MemoryData&>(layer.layer()).Reset(data.data(), labels.data(), 4);
  for (const int64_t position : {-2, 1, 4}) {
    const std::vector<uint64_t> values{static_cast<uint64_t>(position)};
    EXPECT_TRUE(Holds(ErrorOf([&] { layer.layer().SetRunState(1, values); }),
                      Concat("the saved position ", position, " does not fit 4 items")));
  }
  layer.layer().SetRunState(1, {2});
  layer.Forward();
}

TEST(MemoryDataLayerShapeTest, AnyNumberOfAxes) {
  LayerTester layer("type: 'MemoryData' memory_data_param { dim: 4 dim: 5 }", Runtime::Get().cpu(),
                    TypeTriple::Equal(kFloat), {}, 2);
  EXPECT_EQ(layer.top(0).shape(), Shape({4, 5}));
  EXPECT_EQ(layer.top(1).shape(), Shape({4}));
  EXPECT_THROW(LayerTester("type: 'MemoryData' memory_data_param { batch_size: 2 }",
                           Runtime::Get().cpu(), TypeTriple::Equal(kFloat), {}, 2),
               Error);
}

}  // namespace
}  // namespace caffe

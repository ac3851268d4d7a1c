#include <gtest/gtest.h>

#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "support/devices.hpp"
#include "support/layer_tester.hpp"

namespace caffe {
namespace {

LayerTester MakeInput(const std::string& shapes, int tops, DataType type = kFloat) {
  return LayerTester("type: 'Input' input_param {" + shapes + "}", Runtime::Get().cpu(),
                     TypeTriple::Equal(type), {}, tops);
}

TEST(InputLayerTest, OneShapeForAllOrOneEach) {
  LayerTester same = MakeInput("shape { dim: 2 dim: 3 }", 2);
  EXPECT_EQ(same.top(0).shape(), Shape({2, 3}));
  EXPECT_EQ(same.top(1).shape(), Shape({2, 3}));
  LayerTester each = MakeInput("shape { dim: 2 } shape { dim: 4 dim: 1 dim: 5 }", 2, kQuant8);
  EXPECT_EQ(each.top(0).shape(), Shape({2}));
  EXPECT_EQ(each.top(1).shape(), Shape({4, 1, 5}));
  EXPECT_EQ(each.top(1).type(), kQuant8);
  EXPECT_THROW(MakeInput("shape { dim: 2 } shape { dim: 2 }", 3), Error);
}

TEST(InputLayerTest, KeepsWhatTheCallerSet) {
  LayerTester input = MakeInput("shape { dim: 2 }", 1);
  input.top().Reshape({3});
  input.top().SetData({1, 2, 3});
  input.Forward();
  EXPECT_EQ(input.Top(), std::vector<double>({1, 2, 3}));
}

TEST(InputLayerTest, KeepsWhatTheCallerSetOnAnotherDevice) {
  for (Device* device : TestDevices()) {
    LayerTester input = MakeInput("shape { dim: 10 dim: 3 }", 1);
    input.top().Reshape({2, 3});
    input.top().SetData({1, 2, 3, 4, 5, 6});
    input.top().SetDevice(device);
    input.layer().MoveToDevice(device, {}, {&input.top()});
    input.Forward();
    EXPECT_EQ(input.top().shape(), Shape({2, 3}));
    EXPECT_EQ(input.Top(), std::vector<double>({1, 2, 3, 4, 5, 6}));
  }
}

}  // namespace
}  // namespace caffe

// Where backpropagation starts: the gradient of a top with a loss weight, in the type of the top.
#include "net/layer_text.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

class LossSeedTest : public testing::TestWithParam<DeviceType> {};

// Flatten only moves elements: its top has the type of its bottom, also with a loss weight.
TEST_P(LossSeedTest, AGradientStartsAtTheLossWeight) {
  const auto [device, type] = GetParam();
  const auto net = MakeNet(TypeText(type) + "force_backward: true " + InputText("x", {2, 3, 2}) +
                               "layer { name: 'y' type: 'Flatten' bottom: 'x' top: 'y' "
                               "loss_weight: 0.5 } ",
                           device, 0);
  EXPECT_EQ(net->BlobByName("y")->type(), type);
  FillInputs(net.get());
  net->Forward();
  net->Backward();
  EXPECT_EQ(net->BlobByName("x")->DiffAsDouble(), std::vector<double>(12, 0.5));
}

INSTANTIATE_TEST_SUITE_P(All, LossSeedTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

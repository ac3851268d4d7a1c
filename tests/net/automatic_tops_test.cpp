// A loss that names no top has a blob all the same, as in BVLC: "(automatic)", no output, and no
// layer can read it.
#include <gtest/gtest.h>

#include "caffe/device/runtime.hpp"
#include "net/net_support.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

// The blob `loss` is not a loss; the layer of that name is one.
std::string Text(const std::string& top) {
  return InputText("data", {4, 3}) + InputText("label", {4}) +
         "layer { name: 'half' type: 'Power' bottom: 'data' top: 'loss' "
         "power_param { scale: 0.5 } } "
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'data' bottom: 'label' " +
         top + " } ";
}

std::vector<std::string> Outputs(const Net& net) {
  std::vector<std::string> names;
  for (const BlobBase* blob : net.output_blobs()) names.push_back(blob->name());
  return names;
}

TEST(AutomaticTopsTest, AreNoOutputs) {
  testing::internal::CaptureStderr();
  const auto net = MakeNet(Text(""), Runtime::Get().cpu(), 0);
  EXPECT_TRUE(Holds(testing::internal::GetCapturedStderr(), "] loss -> (automatic)"));
  EXPECT_EQ(Outputs(*net), std::vector<std::string>{"loss"});
  ASSERT_EQ(net->blob_names().size(), 4u);
  EXPECT_EQ(net->blob_names()[3], "(automatic)");
  EXPECT_EQ(net->blob_loss_weights(), std::vector<float>({0, 0, 0, 1}));
  FillInputs(net.get());
  net->BlobByName("label")->SetData({0, 1, 2, 0});
  net->Forward();
  // The blob of the loss's name is the user's.
  std::vector<double> half = Values(*net, "data");
  for (double& value : half) value /= 2;
  EXPECT_EQ(Values(*net, "loss"), half);
  const auto named = MakeNet(Text("top: 'named'"), Runtime::Get().cpu(), 0);
  FillInputs(named.get());
  named->BlobByName("label")->SetData({0, 1, 2, 0});
  named->Forward();
  EXPECT_EQ(Outputs(*named), std::vector<std::string>({"loss", "named"}));
  EXPECT_GT(net->Loss(), 0);
  EXPECT_EQ(net->Loss(), named->Loss());
  EXPECT_EQ(Values(*net, "(automatic)"), Values(*named, "named"));
}

TEST(AutomaticTopsTest, HaveGradients) {
  const auto net = MakeNet("force_backward: true " + Text(""), Runtime::Get().cpu(), 0);
  FillInputs(net.get());
  net->BlobByName("label")->SetData({0, 1, 2, 0});
  net->Forward();
  net->Backward();
  double sum = 0;
  for (double value : net->BlobByName("data")->DiffAsDouble()) sum += value * value;
  EXPECT_GT(sum, 0);
}

TEST(AutomaticTopsTest, CanNotBeRead) {
  const std::string message = MessageOf([] {
    MakeNet(Text("") + "layer { name: 's' type: 'Silence' bottom: '(automatic)' } ",
            Runtime::Get().cpu());
  });
  EXPECT_TRUE(Holds(message, "Unknown bottom blob '(automatic)'"));
}

}  // namespace
}  // namespace caffe

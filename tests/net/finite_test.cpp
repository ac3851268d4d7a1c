#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "io/temporary_folder.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"

// CAFFE_DEBUG=nan names the first layer and blob that is not finite.
namespace caffe {
namespace {

class FiniteTest : public testing::TestWithParam<DeviceType> {
 protected:
  void SetUp() override { setenv("CAFFE_DEBUG", "nan", 1); }
  void TearDown() override { unsetenv("CAFFE_DEBUG"); }
};

TEST_P(FiniteTest, ForwardNamesTheFirstLayerAndBlob) {
  auto net = MakeNet(InputText("x", {2, 3}) + InnerProductText("one", "x", 4) +
                         ReluText("relu", "one") + InnerProductText("two", "one", 2),
                     GetParam().device, 0);
  FillInputs(net.get());
  net->Forward();
  std::vector<double> weights = net->LayerByName("two")->blobs()[0]->DataAsDouble();
  weights[5] = std::numeric_limits<double>::quiet_NaN();
  net->LayerByName("two")->blobs()[0]->SetData(weights);
  const std::string parameter = ErrorOf([&] { net->Forward(); });
  EXPECT_NE(std::string::npos,
            parameter.find("forward of layer two (InnerProduct): parameter 0, element 5 of 8"))
      << parameter;
  std::vector<double> x = net->BlobByName("x")->DataAsDouble();
  x[4] = std::numeric_limits<double>::infinity();
  net->BlobByName("x")->SetData(x);
  const std::string top = ErrorOf([&] { net->Forward(); });
  EXPECT_NE(std::string::npos, top.find("forward of layer x (Input): top x, element 4 of 6"))
      << top;
}

TEST_P(FiniteTest, BackwardNamesTheFirstLayerAndBlob) {
  auto net = MakeNet(InputText("x", {2, 3}) + InputText("y", {2, 2}) +
                         InnerProductText("one", "x", 4) + InnerProductText("two", "one", 2) +
                         "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'two' bottom: 'y' "
                         "top: 'loss' loss_weight: 3e38 }",
                     GetParam().device, 0);
  FillInputs(net.get());
  net->BlobByName("y")->SetData({900, 900, 900, 900});
  net->Forward();
  const std::string error = ErrorOf([&] { net->Backward(); });
  EXPECT_NE(std::string::npos,
            error.find("backward of layer loss (EuclideanLoss): gradient of bottom two, element 0"))
      << error;
}

// Without CAFFE_DEBUG, NaN must still be visible in the result.
TEST_P(FiniteTest, NotANumberGoesThroughLayers) {
  unsetenv("CAFFE_DEBUG");
  const auto top = [&](const std::string& layer, bool in_weights) {
    auto net = MakeNet(InputText("x", {2, 3, 4, 4}) + "layer { name: 'a' bottom: 'x' top: 'a' " +
                           layer + " } " + ReluText("b", "a"),
                       GetParam().device);
    FillInputs(net.get());
    BlobBase* blob =
        in_weights ? net->LayerByName("a")->blobs()[0].get() : net->BlobByName("x").get();
    std::vector<double> values = blob->DataAsDouble();
    values[1] = std::numeric_limits<double>::quiet_NaN();
    blob->SetData(values);
    net->Forward();
    const std::vector<double> result = Values(*net, "a");
    return std::any_of(result.begin(), result.end(), [](double y) { return std::isnan(y); });
  };
  for (const char* layer :
       {"type: 'ReLU'", "type: 'ELU'", "type: 'PReLU'", "type: 'Sigmoid'", "type: 'TanH'",
        "type: 'AbsVal'", "type: 'Power' power_param { power: 2 }", "type: 'Exp'",
        "type: 'Softmax'", "type: 'LRN'", "type: 'BatchNorm' batch_norm_param { fused_relu: true }",
        "type: 'Scale'", "type: 'Pooling' pooling_param { pool: AVE kernel_size: 2 stride: 2 }"}) {
    EXPECT_TRUE(top(layer, false)) << layer;
  }
  // The ReLU after these belongs to them.
  const std::string filler = " weight_filler { type: 'gaussian' } }";
  for (const std::string& layer :
       {"type: 'InnerProduct' inner_product_param { num_output: 5" + filler,
        "type: 'Convolution' convolution_param { num_output: 5 kernel_size: 3" + filler}) {
    EXPECT_TRUE(top(layer, false)) << layer;
    EXPECT_TRUE(top(layer, true)) << layer;
  }
  // As in BVLC's Caffe, every comparison with NaN is false.
  EXPECT_FALSE(top("type: 'Pooling' pooling_param { kernel_size: 2 stride: 2 }", false));
}

INSTANTIATE_TEST_SUITE_P(All, FiniteTest, testing::ValuesIn(DevicesAndTypes({kFloat})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

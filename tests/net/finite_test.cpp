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

INSTANTIATE_TEST_SUITE_P(All, FiniteTest, testing::ValuesIn(DevicesAndTypes({kFloat})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

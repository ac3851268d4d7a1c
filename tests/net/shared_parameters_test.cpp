// Layers that compute with copies of their parameters in other types, when those get other memory.
#include <gtest/gtest.h>

#include <cstring>

#include "caffe/core/error.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

std::string NetText(DataType type) {
  const std::string name = DataTypeProto_Name(static_cast<DataTypeProto>(type.info().proto));
  const std::string t = " bottom_data_type: " + name + " compute_data_type: " + name +
                        " top_data_type: " + name + " ";
  return InputText("data", {2, 3, 6, 6}) +
         "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'" + t +
         " convolution_param { num_output: 4 kernel_size: 3"
         " weight_filler { type: 'uniform' min: -0.5 max: 0.5 }"
         " bias_filler { type: 'uniform' min: -0.5 max: 0.5 } } } " +
         InnerProductText("ip", "conv", 5, t) +
         "layer { name: 'prob' type: 'Softmax' bottom: 'ip' top: 'prob' } ";
}

// Weights and ranges.
NetParameter Calibrated() {
  const auto net = MakeNet(NetText(kFloat), TestDevices()[0]);
  net->set_observe(true);
  FillInputs(net.get());
  net->Forward();
  NetParameter saved;
  net->ToProto(&saved);
  return saved;
}

NetParameter WithOtherWeights(NetParameter net) {
  for (LayerParameter& layer : *net.mutable_layer()) {
    for (BlobProto& blob : *layer.mutable_blobs()) {
      for (float& value : *blob.mutable_data()) value *= -0.5f;
    }
  }
  return net;
}

class SharedParametersTest : public testing::TestWithParam<DeviceType> {
 protected:
  std::unique_ptr<Net> Make(const NetParameter& weights) {
    auto net = MakeNet(NetText(GetParam().type), GetParam().device);
    net->CopyTrainedLayersFrom(weights);
    FillInputs(net.get());
    return net;
  }
  std::vector<double> Result(Net* net) {
    net->Forward();
    return Values(*net, "prob");
  }
};

TEST_P(SharedParametersTest, ANetComputesWithTheWeightsThatItShares) {
  const NetParameter weights = Calibrated();
  // As many writes to the one's parameters as to the other's.
  const auto one = Make(weights), other = Make(WithOtherWeights(weights)),
             unused = Make(WithOtherWeights(weights));
  const auto result = Result(one.get()), other_result = Result(other.get());
  ASSERT_NE(result, other_result);
  other->ShareTrainedLayersWith(*one);
  EXPECT_EQ(Result(other.get()), result);
  other->ShareTrainedLayersWith(*unused);
  EXPECT_EQ(Result(other.get()), other_result);
  // One memory: a change here is one there.
  for (const char* layer : {"conv", "ip"}) {
    for (int b : {0, 1}) {
      unused->LayerByName(layer)->blobs()[b]->SetData(
          one->LayerByName(layer)->blobs()[b]->DataAsDouble());
    }
  }
  EXPECT_EQ(Result(other.get()), result);
}

// Layers that share a parameter by name compute with it, also where they convert or quantize it.
TEST_P(SharedParametersTest, LayersThatShareByNameFollowOneBlob) {
  const std::string name =
      DataTypeProto_Name(static_cast<DataTypeProto>(GetParam().type.info().proto));
  const auto text = [&](const std::string& type, const std::string& first,
                        const std::string& second) {
    const std::string t = " bottom_data_type: " + type + " compute_data_type: " + type +
                          " top_data_type: " + type + " ";
    return InputText("data", {2, 5}) + InnerProductText("a", "data", 5, t + first) +
           InnerProductText("b", "a", 5, t + second);
  };
  const std::string tie = "param { name: 'w' } param { name: 'bias' }";
  const auto calibrated = MakeNet(text("CAFFE_FLOAT", tie, tie), TestDevices()[0]);
  calibrated->set_observe(true);
  FillInputs(calibrated.get());
  calibrated->Forward();
  NetParameter weights;
  calibrated->ToProto(&weights);
  const auto tied = MakeNet(text(name, tie, tie), GetParam().device);
  const auto apart = MakeNet(text(name, "", ""), GetParam().device);
  for (Net* net : {tied.get(), apart.get()}) {
    net->CopyTrainedLayersFrom(weights);
    FillInputs(net);
  }
  EXPECT_EQ(tied->LayerByName("a")->blobs(), tied->LayerByName("b")->blobs());
  for (int round = 0; round < 3; ++round) {
    tied->Forward();
    apart->Forward();
    const BlobBase &actual = *tied->BlobByName("b"), &expected = *apart->BlobByName("b");
    EXPECT_EQ(std::memcmp(actual.host_data(), expected.host_data(), expected.bytes()), 0) << round;
    std::vector<double> values = tied->LayerByName("b")->blobs()[0]->DataAsDouble();
    for (double& value : values) value *= -0.75;
    tied->LayerByName(round % 2 ? "a" : "b")->blobs()[0]->SetData(values);
    for (const char* layer : {"a", "b"}) apart->LayerByName(layer)->blobs()[0]->SetData(values);
  }
}

// As a solver does it. Its neighbours in the buffer are of no concern.
TEST_P(SharedParametersTest, AParameterMayMoveIntoABuffer) {
  Device* device = GetParam().device;
  const auto net = Make(Calibrated());
  const auto result = Result(net.get());
  BlobBase* weights = net->LayerByName("ip")->blobs()[0].get();
  std::vector<double> negative = weights->DataAsDouble();
  for (double& value : negative) value = -value;
  const int64_t bytes = (weights->bytes() + 255) / 256 * 256;
  const auto buffer = std::make_shared<DeviceBuffer>(device, 2 * bytes, "a buffer");
  device->Fill(buffer->pointer(), 0x7f, 2 * bytes);
  weights->data_memory()->MoveInto(buffer, bytes);
  EXPECT_EQ(Result(net.get()), result);
  weights->SetData(negative);
  const auto negative_result = Result(net.get());
  EXPECT_NE(negative_result, result);
  const auto other = std::make_shared<DeviceBuffer>(device, bytes, "another buffer");
  weights->data_memory()->MoveInto(other, 0);
  EXPECT_EQ(Result(net.get()), negative_result);
}

// Memory belongs to one device: an address of it means nothing on another.
TEST(SharedParametersErrorTest, NetsOnTwoDevicesShareNothing) {
  const std::string text = "name: 'small' " + NetText(kFloat);
  for (Device* device : TestDevices()) {
    for (Device* other : TestDevices()) {
      const auto net = MakeNet(text, device), source = MakeNet(text, other);
      const std::string message = MessageOf([&] { net->ShareTrainedLayersWith(*source); });
      if (device == other) {
        EXPECT_EQ(message, "");
        continue;
      }
      for (const std::string& part :
           {std::string("layer 'conv'"), device->info().id, other->info().id,
            std::string("net small"), std::string("CopyTrainedLayersFrom")}) {
        EXPECT_NE(message.find(part), std::string::npos) << part << ": " << message;
      }
      FillInputs(net.get());
      net->Forward();
    }
  }
}

TEST(SharedParametersErrorTest, ANetWhosePartnerWasMovedSaysSo) {
  const auto net = MakeNet(NetText(kFloat), TestDevices()[0]);
  for (Device* device : TestDevices()) {
    if (device == TestDevices()[0]) continue;
    const auto source = MakeNet(NetText(kFloat), TestDevices()[0]);
    net->ShareTrainedLayersWith(*source);
    source->SetDevice(device);
    FillInputs(net.get());
    const std::string message = MessageOf([&] { net->Forward(); });
    for (const std::string& part :
         {std::string("conv (Convolution)"), device->info().id, TestDevices()[0]->info().id}) {
      EXPECT_NE(message.find(part), std::string::npos) << part << ": " << message;
    }
    source->SetDevice(TestDevices()[0]);
    net->Forward();
  }
}

INSTANTIATE_TEST_SUITE_P(All, SharedParametersTest,
                         testing::ValuesIn(DevicesAndTypes({kHalf, kBfloat16, kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

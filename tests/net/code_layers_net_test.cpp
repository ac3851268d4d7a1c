// Nets of the layers that compute in codes: ranges observed in float, codes on every device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "caffe/device/runtime.hpp"
#include "net/decoded.hpp"
#include "net/layer_text.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

using Numbers = std::vector<double>;

Device* Cpu() { return Runtime::Get().cpu(); }

std::string Layer(const std::string& name, const std::string& type, const std::string& bottoms,
                  const std::string& more = "") {
  std::string text = "layer { name: '" + name + "' type: '" + type + "' top: '" + name + "' ";
  for (size_t at = 0; at < bottoms.size();) {
    const size_t end = std::min(bottoms.find(' ', at), bottoms.size());
    text += "bottom: '" + bottoms.substr(at, end - at) + "' ";
    at = end + 1;
  }
  return text + more + " } ";
}

const std::vector<std::string>& Blobs() {
  static const std::vector<std::string> blobs{"conv",  "tanh", "scale", "bias",    "norm",
                                              "prelu", "sum",  "max",   "product", "elu",
                                              "up",    "wide", "abs",   "clip",    "sigmoid"};
  return blobs;
}

std::string NetText(DataType type) {
  const std::string fill = "weight_filler { type: 'uniform' min: -0.5 max: 0.5 } ";
  return TypeText(type) + InputText("data", {2, 3, 6, 5}) +
         Layer("conv", "Convolution", "data",
               "convolution_param { num_output: 4 kernel_size: 3 pad: 1 " + fill + "}") +
         Layer("tanh", "TanH", "conv") +
         Layer("scale", "Scale", "conv",
               "scale_param { bias_term: true filler { type: 'uniform' min: -2 max: 2 } "
               "bias_filler { type: 'uniform' min: -1 max: 1 } }") +
         Layer("bias", "Bias", "scale",
               "bias_param { filler { type: 'uniform' min: -1 max: 1 } }") +
         Layer("norm", "BatchNorm", "tanh") + Layer("prelu", "PReLU", "bias") +
         Layer("sum", "Eltwise", "prelu tanh conv",
               "eltwise_param { coeff: 0.5 coeff: -1.5 coeff: 1 }") +
         Layer("max", "Eltwise", "scale sum", "eltwise_param { operation: MAX }") +
         Layer("product", "Eltwise", "max tanh", "eltwise_param { operation: PROD }") +
         Layer("elu", "ELU", "product") + Layer("up", "Upsample", "elu") +
         Layer("wide", "Deconvolution", "up",
               "convolution_param { num_output: 3 kernel_size: 4 stride: 2 pad: 1 " + fill + "}") +
         Layer("abs", "AbsVal", "wide") +
         Layer("clip", "Clip", "abs", "clip_param { min: 0.05 max: 0.5 }") +
         Layer("sigmoid", "Sigmoid", "wide") +
         Layer("best", "ArgMax", "sigmoid", "argmax_param { axis: 1 }");
}

// Gives BatchNorm statistics, which a new net does not have.
std::unique_ptr<Net> Make(DataType type, Device* device) {
  auto net = MakeNet(NetText(type), device);
  auto& blobs = net->LayerByName("norm")->blobs();
  blobs[0]->SetData({0.1, -0.2, 0.3, 0});
  blobs[1]->SetData({0.5, 0.25, 1, 2});
  blobs[2]->SetData({2});
  FillInputs(net.get(), 6);
  return net;
}

NetParameter Calibrated() {
  const auto net = Make(kFloat, Cpu());
  net->set_observe(true);
  net->Forward();
  NetParameter saved;
  net->ToProto(&saved);
  return saved;
}

class CodeLayersNetTest : public testing::TestWithParam<DeviceType> {};

TEST_P(CodeLayersNetTest, AgreesWithFloat) {
  const auto [device, type] = GetParam();
  const NetParameter weights = Calibrated();
  const auto reference = Make(kFloat, Cpu());
  const auto net = Make(type, device);
  for (Net* each : {reference.get(), net.get()}) {
    each->CopyTrainedLayersFrom(weights);
    each->Forward();
  }
  for (const auto& layer : net->layers()) {
    EXPECT_EQ(layer->types().compute, layer->type() == "Input" ? kFloat : type) << layer->name();
  }
  for (const std::string& blob : Blobs()) {
    const BlobBase& codes = *net->BlobByName(blob);
    ASSERT_EQ(codes.type(), type) << blob;
    const Numbers expected = Values(*reference, blob), actual = Decoded(codes);
    double error = 0, largest = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      error += std::abs(actual[i] - expected[i]) / static_cast<double>(expected.size());
      largest = std::max(largest, std::abs(expected[i]));
    }
    EXPECT_LT(error, (type == kQuant8 ? 0.03 : 1.5e-4) * largest) << blob;
  }
  EXPECT_EQ(net->BlobByName("best")->type(), kFloat);
  // Two classes may have one code.
  const Numbers expected = Values(*reference, "best"), actual = Values(*net, "best");
  int64_t same = 0;
  for (size_t i = 0; i < expected.size(); ++i) same += actual[i] == expected[i] ? 1 : 0;
  const double share = static_cast<double>(same) / static_cast<double>(expected.size());
  EXPECT_GT(share, type == kQuant8 ? 0.9 : 0.99);
}

TEST_P(CodeLayersNetTest, CodesEqualThoseOfTheCpu) {
  const auto [device, type] = GetParam();
  const NetParameter weights = Calibrated();
  const auto net = Make(type, device), host = Make(type, Cpu());
  for (const bool layer_by_layer : {false, true}) {
    for (Net* each : {net.get(), host.get()}) {
      each->CopyTrainedLayersFrom(weights);
      if (layer_by_layer) each->set_after_forward([](int) {});
      each->Forward();
    }
    for (const std::string& blob : Blobs()) {
      EXPECT_EQ(Decoded(*net->BlobByName(blob)), Decoded(*host->BlobByName(blob))) << blob;
    }
    EXPECT_EQ(Values(*net, "best"), Values(*host, "best"));
  }
}

// Without the range of its top a layer says which blob has none. TanH needs none: its range is
// [-1, 1].
TEST_P(CodeLayersNetTest, AMissingRangeIsNamed) {
  const auto [device, type] = GetParam();
  for (const char* blob : {"tanh", "sum", "wide"}) {
    NetParameter weights = Calibrated();
    auto* ranges = weights.mutable_quantizer();
    for (int i = ranges->size() - 1; i >= 0; --i) {
      if (ranges->Get(i).name() == blob) ranges->DeleteSubrange(i, 1);
    }
    const auto net = Make(type, device);
    net->CopyTrainedLayersFrom(weights);
    const std::string message = MessageOf([&] { net->Forward(); });
    if (std::string(blob) == "tanh") {
      EXPECT_EQ(message, "");
      EXPECT_NEAR(net->BlobByName(blob)->range().scale, 2.0 / type.info().code_max, 1e-12);
      continue;
    }
    EXPECT_TRUE(Holds(message, Concat("no range of blob ", blob, " was ever observed")));
  }
}

INSTANTIATE_TEST_SUITE_P(All, CodeLayersNetTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

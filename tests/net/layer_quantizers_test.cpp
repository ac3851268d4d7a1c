// bottom_quantizer, top_quantizer, blobs_quantizer and net_quantizer of layers in prototxts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "caffe/device/runtime.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

Device* Cpu() { return Runtime::Get().cpu(); }

std::string NameOf(DataType type) {
  return DataTypeProto_Name(static_cast<DataTypeProto>(type.info().proto));
}

std::string Typed(DataType type) {
  const std::string name = NameOf(type);
  return " bottom_data_type: " + name + " compute_data_type: " + name + " top_data_type: " + name +
         " ";
}

std::string Range(double low, double high) {
  return " observed_min: " + std::to_string(low) + " observed_max: " + std::to_string(high) + " ";
}

// The codes of a blob, as numbers.
std::string Decoded(const std::string& blob) {
  return "layer { name: 'out' type: 'Quantizer' bottom: '" + blob +
         "' top: 'out' top_data_type: CAFFE_FLOAT } ";
}

// ip = W data of 1 x 2 -> 1 x 2, without a bias; out is ip in float.
std::string Net1x2(const std::string& quantizers) {
  return InputText("data", {1, 2}) +
         "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
         "inner_product_param { num_output: 2 bias_term: false } " +
         quantizers + " } " + Decoded("ip");
}

class LayerQuantizersTest : public testing::TestWithParam<DeviceType> {};

TEST_P(LayerQuantizersTest, RangesOfBottomAndTopAreUsed) {
  const auto [device, type] = GetParam();
  const std::string in_layers = Net1x2(Typed(type) + "bottom_quantizer {" + Range(-2, 2) +
                                       "} top_quantizer {" + Range(-8, 8) + "}"),
                    in_list = "quantizer { name: 'data'" + Range(-2, 2) +
                              "} quantizer { name: 'ip'" + Range(-8, 8) + "} " +
                              Net1x2(Typed(type));
  std::vector<std::vector<double>> results;
  for (const std::string& text : {in_layers, in_list}) {
    const auto net = MakeNet(text, device);
    net->params()[0]->SetData({1, -0.5, 0.25, 2});
    net->BlobByName("data")->SetData({1.5, -1});
    net->Forward();
    const double step = 16.0 / (type == kQuant8 ? 255 : 65535);
    const std::vector<double> ip = Values(*net, "out");
    EXPECT_NEAR(ip[0], 2, step);
    EXPECT_NEAR(ip[1], -1.625, step);
    EXPECT_EQ(net->BlobByName("ip")->range().scale, step);
    results.push_back(ip);
  }
  EXPECT_EQ(results[0], results[1]);
}

// A weight of 2 in a range that ends at 1 is 1; in one that ends at 4 it is 2, with wider steps.
TEST_P(LayerQuantizersTest, RangesOfWeightsAreUsed) {
  const auto [device, type] = GetParam();
  const double most = type == kQuant8 ? 127 : 32767;
  const std::string io =
      Typed(type) + "bottom_quantizer {" + Range(-2, 2) + "} top_quantizer {" + Range(-8, 8) + "} ";
  const auto run = [&, device = device](const std::string& quantizer, NetParameter* saved) {
    const auto net = MakeNet(Net1x2(io + quantizer), device);
    net->params()[0]->SetData({2, 0, 0, 0.5});
    net->BlobByName("data")->SetData({1, 1});
    net->Forward();
    net->ToProto(saved);
    return Values(*net, "out");
  };
  const auto weights_of = [](const NetParameter& saved) {
    for (const QuantizerParameter& entry : saved.quantizer()) {
      if (entry.name() == "ip_blobs_0_quant") return entry;
    }
    return QuantizerParameter();
  };
  const double step = 20.0 / (type == kQuant8 ? 255 : 65535);
  NetParameter saved;
  std::vector<double> ip = run("", &saved);
  EXPECT_NEAR(ip[0], 2, step);
  const NetParameter by_weights = saved;
  ip = run("blobs_quantizer {" + Range(-1, 1) + "}", &saved);
  EXPECT_NEAR(ip[0], 1, step);
  EXPECT_NEAR(ip[1], 0.5, step);
  EXPECT_DOUBLE_EQ(weights_of(saved).channel_max(0), 1);
  EXPECT_DOUBLE_EQ(weights_of(saved).channel_max(1), 1);
  ip = run("blobs_quantizer {" + Range(-4, 3) + "}", &saved);
  EXPECT_NEAR(ip[0], 2, 4 / most + step);
  EXPECT_DOUBLE_EQ(weights_of(saved).channel_max(0), 4 * most / (most + 1));
  ip = run("blobs_quantizer { channel_min: [-1, -0.5] channel_max: [1, 0.25] }", &saved);
  EXPECT_NEAR(ip[0], 1, step);
  EXPECT_NEAR(ip[1], 0.5, step);
  EXPECT_DOUBLE_EQ(weights_of(saved).channel_min(1), -0.5);
  // The ranges that a file stores give the same codes again.
  QuantizerParameter stored = weights_of(by_weights);
  ip = run("blobs_quantizer { " + stored.ShortDebugString() + " }", &saved);
  EXPECT_EQ(weights_of(saved).channel_max(0), weights_of(by_weights).channel_max(0));
  EXPECT_EQ(weights_of(saved).channel_max(1), weights_of(by_weights).channel_max(1));
}

TEST_P(LayerQuantizersTest, RangesOfTheWeightsOfAConvolutionAreUsed) {
  const auto [device, type] = GetParam();
  const auto net = MakeNet(
      InputText("data", {1, 1, 1, 1}) +
          "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param { "
          "num_output: 1 kernel_size: 1 } " +
          Typed(type) + "bottom_quantizer {" + Range(-2, 2) + "} top_quantizer {" + Range(-8, 8) +
          "} blobs_quantizer {" + Range(-1, 1) + "} } " + Decoded("conv"),
      device);
  net->params()[0]->SetData({2});
  net->params()[1]->SetData({0.5});
  net->BlobByName("data")->SetData({2});
  net->Forward();
  EXPECT_NEAR(Values(*net, "out")[0], 2.5, 20.0 / (type == kQuant8 ? 255 : 65535));
}

INSTANTIATE_TEST_SUITE_P(All, LayerQuantizersTest,
                         testing::ValuesIn(DevicesAndTypes({kQuant8, kQuant16})),
                         [](const auto& info) { return TestName(info.param); });

std::string MakeError(const std::string& text) {
  return MessageOf([&] { MakeNet(text, Cpu()); });
}

TEST(LayerQuantizersNamesTest, ABottomIsTheVersionThatTheLayerReads) {
  // relu works in place: what it reads is conv@conv, what it writes is conv.
  const auto net = MakeNet(InputText("data", {1, 2}) + InnerProductText("conv", "data", 2) +
                               "layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' "
                               "bottom_quantizer {" +
                               Range(-1, 2) + "} top_quantizer {" + Range(0, 3) + "} }",
                           Cpu());
  const auto ranges = net->Ranges();
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges.at("conv@conv").low, -1);
  EXPECT_EQ(ranges.at("conv@conv").high, 2);
  EXPECT_EQ(ranges.at("conv").low, 0);
  EXPECT_EQ(ranges.at("conv").high, 3);
}

// Also through splits and casts, which are layers of the library's own.
TEST(LayerQuantizersNamesTest, RangesOfSeveralQuantizersOfABlobAreUnited) {
  const auto net =
      MakeNet(InputText("data", {1, 2}) +
                  InnerProductText("a", "data", 2, "bottom_quantizer {" + Range(-1, 1) + "}") +
                  InnerProductText("b", "data", 2, "bottom_quantizer {" + Range(-0.5, 4) + "}") +
                  InnerProductText("c", "data", 2,
                                   "bottom_quantizer {" + Range(-3, 0) + "}" + Typed(kHalf)),
              Cpu());
  const auto ranges = net->Ranges();
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges.at("data").low, -3);
  EXPECT_EQ(ranges.at("data").high, 4);
}

TEST(LayerQuantizersNamesTest, ZonesShareARange) {
  const std::string text =
      InputText("data", {1, 2}) +
      InnerProductText("a", "data", 2, "top_quantizer { zone: 3 " + Range(-1, 1) + "}") +
      InnerProductText("b", "a", 2, "top_quantizer { zone: 3 " + Range(0, 5) + "}") +
      InnerProductText("c", "b", 2, "top_quantizer { zone: 4 }");
  const auto net = MakeNet(text, Cpu());
  auto ranges = net->Ranges();
  ASSERT_EQ(ranges.size(), 2u);
  for (const char* blob : {"a", "b"}) {
    EXPECT_EQ(ranges.at(blob).low, -1);
    EXPECT_EQ(ranges.at(blob).high, 5);
  }
  net->CopyTrainedLayersFrom(ParseNet("quantizer { zone: 3" + Range(-7, 7) +
                                      "} quantizer { zone: 4" + Range(-2, 2) +
                                      "} quantizer { zone: 5" + Range(-9, 9) + "}"));
  ranges = net->Ranges();
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges.at("a").low, -7);
  EXPECT_EQ(ranges.at("b").high, 7);
  EXPECT_EQ(ranges.at("c").low, -2);
}

TEST(LayerQuantizersNamesTest, AQuantizerMayHaveANameOfItsOwn) {
  const std::string text = "quantizer { name: 'logits'" + Range(-6, 6) + "} " +
                           InputText("data", {1, 2}) +
                           InnerProductText("a", "data", 2, "top_quantizer { name: 'logits' }");
  const auto net = MakeNet(text, Cpu());
  EXPECT_EQ(net->Ranges().at("a").low, -6);
  net->CopyTrainedLayersFrom(ParseNet("quantizer { name: 'logits'" + Range(-2, 5) + "}"));
  EXPECT_EQ(net->Ranges().at("a").high, 5);
}

TEST(LayerQuantizersModesTest, ObserveOneBlob) {
  const auto net =
      MakeNet(InputText("data", {1, 2}) + InnerProductText("a", "data", 2) +
                  InnerProductText("b", "a", 2, "bottom_quantizer { mode: CAFFE_QUANT_OBSERVE }"),
              Cpu());
  FillInputs(net.get());
  net->Forward();
  auto ranges = net->Ranges();
  ASSERT_EQ(ranges.size(), 1u);
  const std::vector<double> a = Values(*net, "a");
  EXPECT_EQ(ranges.at("a").low, *std::ranges::min_element(a));
  EXPECT_EQ(ranges.at("a").high, *std::ranges::max_element(a));
  // The mode of the net is that of all blobs.
  net->set_observe(true);
  net->Forward();
  EXPECT_EQ(net->Ranges().size(), 3u);
}

TEST(LayerQuantizersModesTest, LeaveOneBlobOut) {
  const auto net =
      MakeNet("state { quantizer_mode: CAFFE_QUANT_OBSERVE } " + InputText("data", {1, 2}) +
                  InnerProductText("a", "data", 2, "top_quantizer { mode: CAFFE_QUANT_PASSIVE }") +
                  InnerProductText("b", "a", 2),
              Cpu());
  FillInputs(net.get());
  net->Forward();
  EXPECT_EQ(net->Ranges().size(), 2u);
  EXPECT_EQ(net->Ranges().count("a"), 0u);
}

// quantization_param is another way to write ranges.
TEST_P(LayerQuantizersTest, QuantizationParamGivesRanges) {
  const auto [device, type] = GetParam();
  const double top = type == kQuant8 ? 127 : 32767;
  const int bits = type == kQuant8 ? 8 : 16;
  const std::string plain = Net1x2(Typed(type) + "bottom_quantizer {" +
                                   Range(-(top + 1) / 32, top / 32) + "} top_quantizer {" +
                                   Range(-(top + 1) / 8, top / 8) + "} blobs_quantizer {" +
                                   Range(-(top + 1) / 64, top / 64) + "}"),
                    fixed = Net1x2(Typed(type) + Concat("quantization_param { bw_layer_in: ", bits,
                                                        " fl_layer_in: 5 "
                                                        "bw_layer_out: ",
                                                        bits, " fl_layer_out: 3 bw_params: ", bits,
                                                        " fl_params: 6 }"));
  std::vector<std::vector<double>> results;
  for (const std::string& text : {plain, fixed}) {
    const auto net = MakeNet(text, device);
    net->params()[0]->SetData({1, -0.5, 0.25, 1.75});
    net->BlobByName("data")->SetData({1.5, -1});
    net->Forward();
    EXPECT_EQ(net->BlobByName("ip")->range().scale, 1 / 8.0);
    results.push_back(Values(*net, "out"));
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_NE(results[0][0], 0);
}

// A range that one blob's observing found is used when observing ends.
TEST(LayerQuantizersModesTest, TheObservedRangeIsUsed) {
  const auto net =
      MakeNet(InputText("data", {1, 2}) +
                  InnerProductText("a", "data", 2, "top_quantizer { mode: CAFFE_QUANT_OBSERVE }") +
                  "layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'r' " + Typed(kQuant8) +
                  "top_quantizer {" + Range(0, 4) + "} }",
              Cpu());
  net->BlobByName("data")->SetData({1, 1});
  EXPECT_TRUE(Holds(MessageOf([&] { net->Forward(); }), "blob a was ever observed"));
  net->set_observe(false);
  net->Forward();
  EXPECT_EQ(net->Ranges().count("a"), 1u);
}

// The fork's formulas with other limits than those of the type: scale = (max - min) / (255 - 0) of
// the limits, zero point = round(limit - min / scale).
TEST(LayerQuantizersTest, LimitsOfCodesWidenTheRange) {
  for (const std::string fields : {"min_in: 16 max_in: 127", "min_out: 16 max_out: 127",
                                   "min_in: 16 min_out: 16 max_out: 127"}) {
    auto net = MakeNet("data_type: CAFFE_INT8_QUANTIZED " + InputText("data", {1, 4}) +
                           "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'r' "
                           "bottom_quantizer { observed_min: -1 observed_max: 3 " +
                           fields + " } }",
                       Cpu());
    const double scale = 4.0 / (127 - 16), zero = std::round(16 + 1 / scale);
    const auto ranges = net->Ranges();
    ASSERT_EQ(ranges.count("data"), 1u);
    EXPECT_NEAR(ranges.at("data").low, -zero * scale, 1e-12);
    EXPECT_NEAR(ranges.at("data").high, (255 - zero) * scale, 1e-12);
  }
}

TEST(LayerQuantizersErrorsTest, WhatCannotBeDoneIsRefused) {
  const std::string begin = InputText("data", {1, 2});
  for (const std::string field :
       {"bottom_quantizer", "top_quantizer", "blobs_quantizer", "net_quantizer"}) {
    std::string error = MakeError(
        begin +
        InnerProductText("a", "data", 2, field + " { pseudo_target_type: CAFFE_INT32_QUANTIZED }"));
    EXPECT_TRUE(Holds(error, "a (InnerProduct): " + field +
                                 ": pseudo_target_type CAFFE_INT32_QUANTIZED is not supported"));
    error = MakeError(begin + InnerProductText("a", "data", 2, field + " { max_in: 200 }"));
    EXPECT_TRUE(Holds(error, "a (InnerProduct): " + field + ": min_in, max_in, min_out"));
  }
  const auto limits = [&](const std::string& text) {
    return MakeError(begin + InnerProductText("a", "data", 2,
                                              "top_quantizer { observed_min: -1 "
                                              "observed_max: 1 " +
                                                  text + " }"));
  };
  EXPECT_TRUE(Holds(limits("min_in: 0 max_in: 300"), "0 and 300 are not two codes of quant8"));
  EXPECT_TRUE(Holds(limits("min_out: 9 max_out: 9"), "9 and 9 are not two codes"));
  EXPECT_TRUE(Holds(limits("max_in: 200 max_out: 100"), "200 and 100, differ"));
  EXPECT_TRUE(Holds(MakeError(begin + InnerProductText("a", "data", 2,
                                                       "bottom_quantizer {} bottom_quantizer {}")),
                    "a (InnerProduct): 2 bottom_quantizer are given for 1 bottoms"));
  EXPECT_TRUE(Holds(
      MakeError(Net1x2(Typed(kQuant8) + "blobs_quantizer { channel_min: -1 channel_max: 1 }")),
      "ip (InnerProduct): blobs_quantizer has ranges of 1 channels for 2"));
}

// Fields that the OpenCL fork's nets set and that do nothing here are named, and change no result.
TEST(IgnoredSettingsTest, AreNamedInAWarning) {
  const std::string plain = InputText("data", {1, 2}) + InnerProductText("a", "data", 2);
  const std::string text =
      "name: 'old' autotune: CAFFE_AUTOTUNE_FUNCTION " + InputText("data", {1, 2}) +
      InnerProductText("a", "data", 2,
                       "device: 77 net_quantizer { observed_min: 0 observed_max: 1 }");
  std::vector<std::vector<double>> results;
  std::string log;
  for (const std::string& each : {plain, text}) {
    testing::internal::CaptureStderr();
    const auto net = MakeNet(each, Cpu());
    log = testing::internal::GetCapturedStderr();
    FillInputs(net.get());
    net->Forward();
    results.push_back(Values(*net, "a"));
    EXPECT_EQ(log.find("is ignored") == log.npos, each == plain) << log;
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_TRUE(Holds(log, "net old: autotune is ignored"));
  EXPECT_TRUE(Holds(log,
                    "net old: device 77 of layers a is ignored: all layers of a net run on "
                    "one device, here cpu"));
  EXPECT_TRUE(Holds(log, "net old: net_quantizer of layers a is ignored"));
}

TEST(IgnoredSettingsTest, TheDeviceOfTheNetIsNoOtherDevice) {
  const std::vector<Device*>& devices = Runtime::Get().devices();
  for (Device* device : TestDevices()) {
    const auto found = std::ranges::find(devices, device);
    const int64_t number = found == devices.end() ? -1 : found - devices.begin();
    for (const bool same : {true, false}) {
      const std::string text = InputText("data", {1, 2}) +
                               "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'r' device: " +
                               std::to_string(same ? number : number + 1) + " }";
      testing::internal::CaptureStderr();
      MakeNet(text, device);
      const std::string log = testing::internal::GetCapturedStderr();
      EXPECT_EQ(log.find("of layers r is ignored") == log.npos, same) << log;
    }
  }
}

}  // namespace
}  // namespace caffe

// Codes with channels last between the layers of a net on the CPU: equal to those of a plan in C
// order, at the lowest instruction level.
#include <algorithm>
#include <set>

#include "caffe/device/cpu/cpu_device.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/multiplexer.hpp"
#include "caffe/net/step_info.hpp"
#include "net/layer_text.hpp"
#include "net/net_support.hpp"

namespace caffe {
namespace {

using Numbers = std::vector<double>;

Device* Cpu() { return Runtime::Get().cpu(); }

std::string ConvText(const std::string& name, const std::string& bottom, int outputs,
                     const std::string& window) {
  return LayerText("Convolution", name, {bottom}, name,
                   Concat("convolution_param { num_output: ", outputs, " ", window,
                          " weight_filler { type: 'uniform' min: -0.4 max: 0.4 } bias_filler { "
                          "type: 'uniform' min: -0.2 max: 0.2 } }"));
}

std::string Text(const std::string& norm) {
  return InputText("data", {2, 3, 23, 21}) +
         ConvText("conv1", "data", 24, "kernel_size: 5 stride: 2 pad: 1") +
         ReluText("relu1", "conv1") + norm +
         LayerText("Pooling", "pool1", {"conv1"}, "pool1",
                   "pooling_param { kernel_size: 3 stride: 2 }") +
         ConvText("left", "pool1", 20, "kernel_size: 3 pad: 1") + ReluText("relu2", "left") +
         ConvText("right", "pool1", 12, "kernel_size: 1") +
         LayerText("Concat", "concat", {"left", "right", "pool1"}, "concat") +
         ConvText("depthwise", "concat", 56, "kernel_size: 3 pad: 1 group: 56") +
         ReluText("relu3", "depthwise") +
         LayerText("Pooling", "pool2", {"depthwise"}, "pool2",
                   "pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }") +
         ConvText("conv2", "pool2", 70, "kernel_size: 1") +
         LayerText("Pooling", "pool3", {"conv2"}, "pool3",
                   "pooling_param { pool: AVE global_pooling: true }") +
         InnerProductText("ip", "pool3", 5) + LayerText("Softmax", "prob", {"ip"}, "prob");
}

// Layers of two bottoms and two tops between layers in kNHWC: they have no work in it.
std::string TwinsText() {
  const auto twins = [](const std::string& type, const std::string& name, const std::string& a,
                        const std::string& b, const std::string& window) {
    return "layer { name: '" + name + "' type: '" + type + "' bottom: '" + a + "' bottom: '" + b +
           "' top: '" + name + "_a' top: '" + name + "_b' convolution_param { num_output: 16 " +
           window + " weight_filler { type: 'uniform' min: -0.4 max: 0.4 } } } ";
  };
  return InputText("a", {1, 3, 8, 9}) + InputText("b", {1, 3, 8, 9}) +
         ConvText("first", "a", 16, "kernel_size: 1") +
         ConvText("second", "b", 16, "kernel_size: 1") +
         twins("Convolution", "conv", "first", "second", "kernel_size: 3 pad: 1") +
         ReluText("relu", "conv_a") +
         twins("Deconvolution", "deconv", "conv_a", "conv_b", "kernel_size: 2 stride: 2") +
         ConvText("last_a", "deconv_a", 16, "kernel_size: 3") +
         ConvText("last_b", "deconv_b", 16, "kernel_size: 3");
}

class QuantizedLayoutsTest : public testing::TestWithParam<DataType> {
 protected:
  void TearDown() override { SetHostLevel(level_); }

  static NetParameter Calibrated(const std::string& text) {
    const auto net = MakeNet(text, Cpu());
    net->set_observe(true);
    for (const uint64_t seed : {5, 6, 7}) {
      FillInputs(net.get(), seed);
      net->Forward();
    }
    NetParameter saved;
    net->ToProto(&saved);
    return saved;
  }

  // A net after its second forward, for whose weights and ranges `saved` was made.
  std::unique_ptr<Net> Run(const std::string& text, const NetParameter& saved,
                           const std::string& level) const {
    SetHostLevel(level);
    auto net = MakeNet(TypeText(GetParam()) + text, Cpu());
    net->CopyTrainedLayersFrom(saved);
    for (const uint64_t seed : {8, 9}) {
      FillInputs(net.get(), seed);
      net->Forward();
    }
    return net;
  }

  const std::string level_ = HostLevel();
};

std::vector<char> Codes(const Net& net, const std::string& blob) {
  const BlobBase& codes = *net.BlobByName(blob);
  const char* bytes = static_cast<const char*>(codes.host_data());
  return {bytes, bytes + codes.bytes()};
}

std::set<std::string> StepsInNhwc(Net& net) {
  std::set<std::string> names;
  for (const StepInfo& step : net.Steps()) {
    if (step.layouts.y == Layout::kNHWC) names.insert(step.layers[0]);
  }
  return names;
}

TEST_P(QuantizedLayoutsTest, CodesAreThoseOfCOrder) {
  if (level_ == HostLevels().front()) GTEST_SKIP() << "one instruction level";
  const NetParameter saved = Calibrated(Text(""));
  // A library that knows no other order.
  AddLibrary(ConvLibrary{"c_order", nullptr,
                         [](Device*, const ConvDescriptor& d) { return d.quantized(); },
                         [](Device* device, const ConvDescriptor& d) {
                           return Multiplexer::ConvolutionBy("native", device, d);
                         }});
  const auto expected = Run(Text(""), saved, HostLevels().front());
  RemoveLibrary("c_order");
  EXPECT_TRUE(StepsInNhwc(*expected).empty());
  for (const char* blob : {"conv1", "pool1", "concat", "depthwise", "pool2", "conv2", "ip"}) {
    // A net of its own for each blob, because reading one may run layers again.
    const auto last = Run(Text(""), saved, level_);
    EXPECT_EQ(Codes(*last, blob), Codes(*expected, blob)) << blob;
  }
  const auto last = Run(Text(""), saved, level_);
  // Softmax in float may differ in the last bit between instruction levels.
  const Numbers prob = Values(*last, "prob"), expected_prob = Values(*expected, "prob");
  for (size_t i = 0; i < prob.size(); ++i) EXPECT_NEAR(prob[i], expected_prob[i], 1e-6) << i;
  const std::set<std::string> steps = StepsInNhwc(*last);
  if (GetParam() == kQuant8) {
    for (const char* layer :
         {"conv1", "pool1", "left", "right", "concat", "depthwise", "pool2", "conv2", "pool3"}) {
      EXPECT_TRUE(steps.count(layer)) << layer;
    }
  }
}

TEST_P(QuantizedLayoutsTest, LayersOfSeveralBottomsStayInCOrder) {
  const NetParameter saved = Calibrated(TwinsText());
  const auto expected = Run(TwinsText(), saved, HostLevels().front());
  const auto net = Run(TwinsText(), saved, level_);
  for (const char* blob : {"conv_a", "conv_b", "deconv_a", "deconv_b", "last_a", "last_b"}) {
    EXPECT_EQ(Codes(*net, blob), Codes(*expected, blob)) << blob;
  }
  EXPECT_FALSE(StepsInNhwc(*net).count("conv"));
}

// LRN computes codes from codes in this layout, too.
TEST_P(QuantizedLayoutsTest, LRNKeepsTheLayout) {
  const std::string norm =
      LayerText("LRN", "norm", {"conv1"}, "conv1n", "lrn_param { local_size: 5 alpha: 0.5 }");
  std::string text = Text(norm);
  text.replace(text.find("bottom: 'conv1' top: 'pool1'"), 28, "bottom: 'conv1n' top: 'pool1'");
  const NetParameter saved = Calibrated(text);
  const auto expected = Run(text, saved, HostLevels().front());
  const auto last = Run(text, saved, level_);
  const Numbers a = Values(*expected, "prob"), b = Values(*last, "prob");
  // LRN at another instruction level may differ in the last bit, hence a code by one.
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 0.02) << i;
  if (GetParam() != kQuant8 || level_ == HostLevels().front()) return;
  int conversions = 0;
  for (const StepInfo& step : last->Steps()) conversions += step.conversions;
  EXPECT_TRUE(StepsInNhwc(*last).count("norm"));
  EXPECT_EQ(conversions, 1) << "before the inner product";
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedLayoutsTest, testing::Values(kQuant8, kQuant16),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace caffe

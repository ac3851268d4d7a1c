// Steps of element-wise layers: chains.
#include <random>

#include "caffe/core/log.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/multiplexer.hpp"
#include "caffe/net/plan.hpp"
#include "caffe/net/step_info.hpp"
#include "net/channels_last_library.hpp"
#include "net/layer_text.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"
#include "support/scoped_variable.hpp"

namespace caffe {
namespace {

using Numbers = std::vector<double>;

std::string ConvText(const std::string& name, const std::string& bottom, int outputs,
                     int kernel = 3) {
  return LayerText("Convolution", name, {bottom}, name,
                   Concat("convolution_param { num_output: ", outputs, " kernel_size: ", kernel,
                          " pad: ", kernel / 2,
                          " weight_filler { type: 'uniform' min: -0.3 max: 0.3 } "
                          "bias_filler { type: 'uniform' min: -0.3 max: 0.3 } }"));
}

const char* const kScale =
    "scale_param { bias_term: true filler { type: 'uniform' min: 0.5 max: 1.5 } "
    "bias_filler { type: 'uniform' min: -0.5 max: 0.5 } }";

// BatchNorm, Scale and ReLU, as ResNet v2 and DenseNet begin their branches.
std::string NormText(const std::string& name, const std::string& bottom) {
  return LayerText("BatchNorm", name + "_bn", {bottom}, name + "_bn") +
         LayerText("Scale", name + "_scale", {name + "_bn"}, name + "_bn", kScale) +
         LayerText("ReLU", name + "_relu", {name + "_bn"}, name);
}

// Two blocks of ResNet v2: He et al., arXiv 1603.05027.
std::string PreActivationText() {
  return InputText("data", {2, 3, 10, 9}) + ConvText("conv0", "data", 6) + NormText("a1", "conv0") +
         ConvText("a1_conv", "a1", 6) + NormText("a2", "a1_conv") + ConvText("a2_conv", "a2", 6) +
         LayerText("Eltwise", "a", {"conv0", "a2_conv"}, "a") + NormText("b1", "a") +
         ConvText("b1_conv", "b1", 6) + NormText("b2", "b1_conv") + ConvText("b2_conv", "b2", 6) +
         LayerText("Eltwise", "b", {"a", "b2_conv"}, "b") + NormText("c", "b") +
         LayerText("Pooling", "pool", {"c"}, "pool",
                   "pooling_param { pool: AVE global_pooling: true }") +
         InnerProductText("ip", "pool", 5);
}

// A block of DenseNet with two layers and its transition: Huang et al., arXiv 1608.06993.
std::string DenseText() {
  return InputText("data", {2, 3, 10, 9}) + ConvText("conv0", "data", 8) +
         LayerText("Pooling", "pool0", {"conv0"}, "pool0",
                   "pooling_param { kernel_size: 3 stride: 2 }") +
         NormText("x1", "pool0") + ConvText("x1_conv", "x1", 8, 1) + NormText("y1", "x1_conv") +
         ConvText("y1_conv", "y1", 4) +
         LayerText("Concat", "concat1", {"pool0", "y1_conv"}, "concat1") +
         NormText("x2", "concat1") + ConvText("x2_conv", "x2", 8, 1) + NormText("y2", "x2_conv") +
         ConvText("y2_conv", "y2", 4) +
         LayerText("Concat", "concat2", {"concat1", "y2_conv"}, "concat2") +
         NormText("t", "concat2") + ConvText("t_conv", "t", 8, 1) +
         LayerText("Pooling", "pool", {"t_conv"}, "pool",
                   "pooling_param { pool: AVE kernel_size: 2 stride: 2 }") +
         InnerProductText("ip", "pool", 5) +
         LayerText("Power", "shifted", {"ip"}, "shifted", "power_param { scale: 0.5 shift: 0.1 }") +
         LayerText("Sigmoid", "gate", {"shifted"}, "gate") +
         LayerText("Power", "root", {"gate"}, "root", "power_param { power: 0.5 }") +
         LayerText("Scale", "out", {"root"}, "out", kScale);
}

// "conv0 | a1_bn a1_scale a1_relu": the layers of the steps that cover several.
std::string FusedSteps(Net* net) {
  std::string text;
  for (const StepInfo& step : net->Steps()) {
    if (step.layers.size() < 2) continue;
    if (!text.empty()) text += " | ";
    for (size_t i = 0; i < step.layers.size(); ++i) text += (i ? " " : "") + step.layers[i];
  }
  return text;
}

const StepInfo& StepOf(const std::vector<StepInfo>& steps, const std::string& layer) {
  for (const StepInfo& step : steps) {
    if (std::find(step.layers.begin(), step.layers.end(), layer) != step.layers.end()) return step;
  }
  CAFFE_THROW("no step has the layer ", layer);
}

std::map<std::string, Numbers> All(const Net& net) {
  std::map<std::string, Numbers> values;
  for (const std::string& name : net.blob_names()) values[name] = Values(net, name);
  return values;
}

std::map<std::string, Numbers> LayerByLayer(Net* net) {
  net->set_after_forward([](int) {});
  net->Forward();
  net->set_after_forward(nullptr);
  return All(*net);
}

class ChainsTest : public testing::TestWithParam<DeviceType> {
 protected:
  void TearDown() override { RemoveLibrary("chains_channels_last"); }

  static std::unique_ptr<Net> Make(const std::string& text) {
    const auto [device, type] = GetParam();
    auto net = MakeNet(TypeText(type) + text, device);
    for (const auto& layer : net->layers()) {
      if (layer->type() != "BatchNorm") continue;
      layer->blobs()[0]->SetData(TestNumbers(layer->blobs()[0]->count(), 7));
      Numbers variance = TestNumbers(layer->blobs()[1]->count(), 8);
      for (double& value : variance) value = 4 + 2 * value;
      layer->blobs()[1]->SetData(variance);
      layer->blobs()[2]->SetData({3});
    }
    FillInputs(net.get());
    return net;
  }

  static void ExpectEqual(const std::map<std::string, Numbers>& actual,
                          const std::map<std::string, Numbers>& expected) {
    for (const auto& [name, values] : expected) EXPECT_EQ(actual.at(name), values) << name;
  }

  static void ExpectSame(const std::map<std::string, Numbers>& actual,
                         const std::map<std::string, Numbers>& expected,
                         const std::string& what = "") {
    for (const auto& [name, values] : expected) {
      // A half net rounds each blob between the layers; a step does not.
      ExpectNear(actual.at(name), values, 8 * Tolerance(GetParam().type), what + name);
    }
  }

  // Whether convolutions of the device use kNHWC without a library of these tests.
  static bool PrefersNhwc() {
    const auto [device, type] = GetParam();
    const bool half = type == kHalf || type == kBfloat16;
    return device->info().matrix && (half || (device->backend() == "opencl" && type == kFloat));
  }

  // Fused and layer by layer, whole and cut after each layer.
  static void ExpectPassesAgree(Net* net, bool cut) {
    net->Forward();
    const auto fused = All(*net);
    ExpectSame(fused, LayerByLayer(net));
    net->Forward();
    ExpectEqual(All(*net), fused);
    const int last = static_cast<int>(net->layers().size()) - 1;
    for (int end = 0; cut && end < last; ++end) {
      net->Forward(0, end);
      net->Forward(end + 1, last);
      ExpectSame(All(*net), fused, Concat("cut after ", end, ": "));
    }
    net->Forward();
    ExpectEqual(All(*net), fused);
  }
};

TEST_P(ChainsTest, PreActivation) {
  const auto net = Make(PreActivationText());
  EXPECT_EQ(FusedSteps(net.get()),
            "a1_bn a1_scale a1_relu | a1_conv a2_bn a2_scale a2_relu | a2_conv a | "
            "b1_bn b1_scale b1_relu | b1_conv b2_bn b2_scale b2_relu | b2_conv b | "
            "c_bn c_scale c_relu");
  ExpectPassesAgree(net.get(), !CompilesSlowly(*GetParam().device) || GetParam().type == kFloat);
}

TEST_P(ChainsTest, DenseBlock) {
  const auto net = Make(DenseText());
  EXPECT_EQ(FusedSteps(net.get()),
            "x1_bn x1_scale x1_relu | x1_conv y1_bn y1_scale y1_relu | x2_bn x2_scale x2_relu | "
            "x2_conv y2_bn y2_scale y2_relu | t_bn t_scale t_relu | ip shifted gate | root out");
  ExpectPassesAgree(net.get(), !CompilesSlowly(*GetParam().device) || GetParam().type == kFloat);
}

// With a library that prefers kNHWC, chains convert nothing.
TEST_P(ChainsTest, ChannelsLast) {
  for (const std::string& text : {PreActivationText(), DenseText()}) {
    const auto expected = Make(text);
    AddLibrary(ChannelsLastLibrary("chains_channels_last"));
    const auto net = Make(text);
    int conversions = 0;
    for (const StepInfo& step : net->Steps()) {
      conversions += step.conversions;
      if (step.library == "chain" && step.layers[0] != "root") {
        EXPECT_EQ(step.layout(), "NHWC") << step.name();
      }
    }
    EXPECT_EQ(conversions, 1);  // of the bottom of `ip`
    expected->Forward();
    net->Forward();
    ExpectSame(All(*net), All(*expected));
    ExpectPassesAgree(net.get(), !CompilesSlowly(*GetParam().device));
    RemoveLibrary("chains_channels_last");
  }
}

// Layers that know C order alone, between layers in kNHWC.
TEST_P(ChainsTest, SingleLayersInChannelsLast) {
  const std::vector<std::pair<std::string, std::string>> layers{
      {"BatchNorm", ""},
      {"Scale", kScale},
      {"Scale", "scale_param { filler { type: 'uniform' min: 0.5 max: 1.5 } }"},
      {"Bias", "bias_param { filler { type: 'uniform' min: -0.5 max: 0.5 } }"},
      {"PReLU", "prelu_param { filler { type: 'uniform' min: 0 max: 0.5 } }"},
      {"PReLU", "prelu_param { channel_shared: true }"}};
  for (const auto& [type, parameter] : layers) {
    const std::string text = InputText("data", {2, 3, 9, 8}) + ConvText("conv", "data", 5) +
                             LayerText("Pooling", "pool", {"conv"}, "pool",
                                       "pooling_param { kernel_size: 2 stride: 2 }") +
                             LayerText(type, "one", {"pool"}, "one", parameter) +
                             ConvText("next", "one", 4);
    const auto expected = Make(text);
    const std::string own = StepOf(expected->Steps(), "one").library;
    EXPECT_EQ(own, PrefersNhwc() ? "chain" : "kernels");
    AddLibrary(ChannelsLastLibrary("chains_channels_last"));
    const auto net = Make(text);
    const auto steps = net->Steps();
    EXPECT_EQ(StepOf(steps, "one").library, "chain") << type;
    EXPECT_EQ(StepOf(steps, "one").layout(), "NHWC") << type;
    EXPECT_EQ(StepOf(steps, "next").layout(), "NHWC +1") << type;  // its top is an output
    expected->Forward();
    net->Forward();
    ExpectSame(All(*net), All(*expected), type + " ");
    RemoveLibrary("chains_channels_last");
    if (CompilesSlowly(*GetParam().device) && GetParam().type != kFloat) break;
  }
}

// Writes layers one after the other, each of a random type, and reads a second input in sums.
class RandomLayers {
 public:
  RandomLayers(int seed, std::string bottom) : random_(seed), blob_(std::move(bottom)) {}

  std::string Make(int count, const std::string& other) {
    if (random_() % 3 == 0) Add("Threshold", "threshold_param { threshold: 0.1 }");
    while (layers_ < count) {
      switch (random_() % 17) {
        case 0: Add("BatchNorm"); break;
        case 1: Add("Scale", kScale); break;
        case 2: Add("Bias", "bias_param { filler { type: 'uniform' min: -0.5 max: 0.5 } }"); break;
        case 3: Add("PReLU", "prelu_param { filler { type: 'uniform' min: 0 max: 0.5 } }"); break;
        case 4: Add("ReLU"); break;
        case 5: Add("ReLU", "relu_param { negative_slope: 0.3 }"); break;
        case 6: Add("ELU", "elu_param { alpha: 0.7 }"); break;
        case 7: Add("Sigmoid"); break;
        case 8: Add("TanH"); break;
        case 9: Add("AbsVal"); break;
        case 10: Add("BNLL"); break;
        case 11: Add("Swish"); break;
        case 12: Add("Dropout"); break;
        case 13: Add("Power", "power_param { scale: -0.8 shift: 0.3 }"); break;
        case 14:
          Add("TanH");
          Add(random_() % 2 ? "Power" : "Exp",
              layers_ % 2 ? "power_param { power: 2 shift: 0.5 } exp_param { scale: 0.5 }" : "");
          break;
        case 15:
          Add("Sigmoid");
          Add("Log", "log_param { shift: 0.5 }");
          break;
        default: Add("Eltwise", "eltwise_param { coeff: 0.5 coeff: -1 }", other);
      }
    }
    return text_;
  }
  const std::string& blob() const { return blob_; }

 private:
  void Add(const std::string& type, const std::string& more = "", const std::string& other = "") {
    const std::string name = Concat("e", layers_++);
    const std::string top = other.empty() && random_() % 2 ? blob_ : name;
    std::vector<std::string> bottoms{blob_};
    if (!other.empty()) bottoms.insert(bottoms.begin() + static_cast<int>(random_() % 2), other);
    text_ += LayerText(type, name, bottoms, top, more);
    blob_ = top;
  }

  std::mt19937 random_;
  std::string blob_, text_;
  int layers_ = 0;
};

TEST_P(ChainsTest, RandomLayers) {
  const bool slow = CompilesSlowly(*GetParam().device);
  for (int seed = 0; seed < (slow ? 3 : 25); ++seed) {
    for (const bool channels_last : {false, true}) {
      const std::string head =
          InputText("data", {2, 3, 9, 8}) + InputText("other", {2, 5, 5, 4}) +
          ConvText("conv", "data", 5) +
          LayerText("Pooling", "pool", {"conv"}, "pool",
                    "pooling_param { kernel_size: 2 stride: 2 }") +
          LayerText("Power", "begin", {"pool"}, "begin", "power_param { scale: 0.9 }");
      RandomLayers layers(seed, "begin");
      const std::string body = layers.Make(slow ? 7 : 3 + seed % 8, "other");
      const std::string text = head + body + ConvText("next", layers.blob(), 4);
      if (channels_last) AddLibrary(ChannelsLastLibrary("chains_channels_last"));
      const auto net = Make(text);
      SCOPED_TRACE(Concat("seed ", seed, channels_last ? ", channels last: " : ": ", body));
      const auto steps = net->Steps();
      const StepInfo& step = StepOf(steps, "begin");
      EXPECT_EQ(step.library, "chain");
      EXPECT_GE(step.layers.size(), 4u);
      EXPECT_EQ(step.layout().substr(0, 4), channels_last || PrefersNhwc() ? "NHWC" : "NCHW");
      ExpectPassesAgree(net.get(), false);
      if (channels_last) RemoveLibrary("chains_channels_last");
    }
  }
}

TEST_P(ChainsTest, ParametersThatChange) {
  const auto net = Make(DenseText());
  net->Forward();
  const Numbers before = Values(*net, "x2");
  for (const auto& layer : net->layers()) {
    for (const auto& blob : layer->blobs()) {
      if (layer->name() == "x2_bn" || layer->name() == "x2_scale") {
        Numbers values = blob->DataAsDouble();
        for (double& value : values) value *= 1.25;
        blob->SetData(values);
      }
    }
  }
  net->Forward();
  const auto fused = All(*net);
  EXPECT_NE(fused.at("x2"), before);
  ExpectSame(fused, LayerByLayer(net.get()));
}

TEST_P(ChainsTest, KeptBlobsAreWritten) {
  const auto net = Make(DenseText());
  net->Keep({"x2_bn"});
  EXPECT_EQ(StepOf(net->Steps(), "x2_bn").name(), "x2_bn + x2_scale");
  EXPECT_EQ(StepOf(net->Steps(), "x2_relu").name(), "x2_relu");
  net->Forward();
  EXPECT_TRUE(net->BlobByName("x2_bn")->data_memory()->stored());
  EXPECT_FALSE(net->BlobByName("x1_bn")->data_memory()->stored());
  const auto fused = All(*net);
  ExpectSame(fused, LayerByLayer(net.get()));
}

TEST_P(ChainsTest, OtherShapes) {
  const auto net = Make(PreActivationText());
  net->Forward();
  for (const int64_t batch : {3, 1}) {
    net->input_blobs()[0]->Reshape({batch, 3, 7, 12});
    FillInputs(net.get(), 5);
    net->Forward();
    const auto fused = All(*net);
    ExpectSame(fused, LayerByLayer(net.get()));
  }
}

// A chain that begins in place keeps what its input was before.
TEST_P(ChainsTest, InPlaceFromTheInput) {
  const auto net = Make(
      InputText("data", {2, 3, 4, 5}) + LayerText("BatchNorm", "bn", {"data"}, "data") +
      LayerText("Scale", "scale", {"data"}, "data", kScale) +
      LayerText("ReLU", "relu", {"data"}, "relu") + LayerText("TanH", "tanh", {"relu"}, "tanh"));
  EXPECT_EQ(FusedSteps(net.get()), "bn scale | relu tanh");
  net->Forward();
  const auto fused = All(*net);
  FillInputs(net.get());
  ExpectSame(fused, LayerByLayer(net.get()));
}

TEST_P(ChainsTest, WarmForwardsOnlyEnqueueWork) {
  const auto [device, type] = GetParam();
  const auto net = Make(DenseText());
  for (int i = 0; i < 2; ++i) net->Forward();
  device->ResetCounters();
  net->Forward();
  const DeviceCounters counters = device->counters();
  EXPECT_EQ(counters.builds + counters.allocations + counters.syncs, 0);
  EXPECT_EQ(counters.uploads + counters.downloads, 0);
}

// A chain writes over an input that nothing else reads; the input can be read all the same.
TEST_P(ChainsTest, ChainsWorkInPlace) {
  const auto net =
      Make(InputText("data", {2, 3, 4, 4}) +
           LayerText("Tile", "tile", {"data"}, "tile", "tile_param { tiles: 8 }") +
           LayerText("BatchNorm", "bn", {"tile"}, "bn") + LayerText("ELU", "elu", {"bn"}, "elu") +
           LayerText("Reduction", "sum", {"elu"}, "sum", "reduction_param { axis: 1 }"));
  net->Forward();
  const int64_t one = 2 * 24 * 16 * static_cast<int64_t>(GetParam().type.bytes());
  const MemoryNeeds needs = net->memory_needs();
  EXPECT_GE(needs.data, one);
  EXPECT_LT(needs.data, 3 * one / 2) << "tile and elu share their bytes";
  const auto fused = All(*net);
  ExpectSame(fused, LayerByLayer(net.get()));
  net->Forward();
  ExpectEqual(All(*net), fused);
}

TEST_P(ChainsTest, StepsSayWhatTheyCost) {
  const auto net = Make(DenseText());
  const auto steps = net->Steps();
  const StepInfo& step = StepOf(steps, "x2_scale");
  EXPECT_EQ(step.name(), "x2_bn + x2_scale + x2_relu");
  EXPECT_EQ(step.library, "chain");
  const BlobBase& x = *net->BlobByName("concat1");
  const int64_t table = 2 * x.shape(1) * (GetParam().type == kDouble ? 8 : 4);
  // On the host the table of few channels is repeated, if they are neighbours; here they are not.
  EXPECT_EQ(step.bytes, 2 * x.bytes() + table);
  EXPECT_EQ(step.operations, 3 * x.count());
  EXPECT_EQ(step.workspace_bytes, 0);
}

INSTANTIATE_TEST_SUITE_P(All, ChainsTest, testing::ValuesIn(DevicesAndFloatsOfNets()),
                         [](const auto& info) { return TestName(info.param); });

// Launches and calls of libraries in a warm forward on the CPU.
class ChainCountsTest : public testing::Test {
 protected:
  const ScopedVariable library_{"CAFFE_LIBRARY", "conv=native,gemm=native,pool=native"};
  static int64_t WorkOf(Net* net) {
    Device* const device = Runtime::Get().cpu();
    for (int i = 0; i < 2; ++i) net->Forward();
    device->ResetCounters();
    net->Forward();
    const DeviceCounters counters = device->counters();
    EXPECT_EQ(counters.builds + counters.allocations + counters.copies, 0);
    return counters.launches + counters.library_calls;
  }
  static void ExpectWork(const std::string& text, int64_t layer_by_layer, int64_t fused) {
    const auto net = MakeNet(text, Runtime::Get().cpu());
    EXPECT_EQ(WorkOf(net.get()), fused);
    net->set_after_forward([](int) {});
    EXPECT_EQ(WorkOf(net.get()), layer_by_layer);
  }
};

TEST_F(ChainCountsTest, PreActivation) { ExpectWork(PreActivationText(), 25, 15); }
TEST_F(ChainCountsTest, DenseBlock) { ExpectWork(DenseText(), 33, 18); }

}  // namespace
}  // namespace caffe

// Net::Steps: the numbers of each step by hand.
#include "caffe/net/step_info.hpp"

#include "caffe/device/runtime.hpp"
#include "caffe/library/multiplexer.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

using Names = std::vector<std::string>;

std::string LayerText(const std::string& type, const std::string& name, const std::string& bottom,
                      const std::string& top, const std::string& more = "") {
  return "layer { name: '" + name + "' type: '" + type + "' bottom: '" + bottom + "' top: '" + top +
         "' " + more + " } ";
}

// A window of 5 x 5 for which no algorithm transforms the weights; 4 outputs of the input's
// extents.
std::string ConvText(const std::string& name) {
  return LayerText("Convolution", name, "data", name,
                   "convolution_param { num_output: 4 kernel_size: 5 pad: 2 "
                   "weight_filler { type: 'uniform' min: -0.4 max: 0.4 } }");
}

// A block of ResNet and an inner product. Each blob but the last two has 240 elements.
std::string BlockText() {
  return InputText("data", {2, 4, 6, 5}) + ConvText("short") +
         LayerText("BatchNorm", "short_bn", "short", "short_bn") + ConvText("main") +
         LayerText("BatchNorm", "bn", "main", "bn") +
         LayerText("Scale", "scale", "bn", "scale", "scale_param { bias_term: true }") +
         "layer { name: 'sum' type: 'Eltwise' bottom: 'short_bn' bottom: 'scale' top: 'sum' "
         "eltwise_param { coeff: 1 coeff: 0.5 } } " +
         LayerText("ReLU", "relu", "sum", "relu") + InnerProductText("ip", "relu", 3) +
         LayerText("Softmax", "prob", "ip", "prob");
}

std::string Typed(DataType type, const std::string& text) {
  return Concat("data_type: ", DataTypeProto_Name(static_cast<DataTypeProto>(type.info().proto)),
                " ", text);
}

std::map<std::string, StepInfo> ByName(const std::vector<StepInfo>& steps) {
  std::map<std::string, StepInfo> found;
  for (const StepInfo& step : steps) found[step.name()] = step;
  return found;
}

Names NamesOf(const std::vector<StepInfo>& steps) {
  Names names;
  for (const StepInfo& step : steps) names.push_back(step.name());
  return names;
}

class StepInfoTest : public testing::TestWithParam<DeviceType> {
 protected:
  Device* device() const { return GetParam().device; }
  DataType type() const { return GetParam().type; }
  int64_t size() const { return static_cast<int64_t>(type().bytes()); }
  // Bytes of a weight in the operator's form: on the CPU narrow floats are widened to float, and
  // codes of 8 bits to 16 bits.
  int64_t weight_size() const {
    if (device() != Runtime::Get().cpu()) return size();
    return type() == kQuant8 ? 2 : 4;
  }
  std::unique_ptr<Net> Make(const std::string& text, int phase = 1) const {
    return MakeNet(Typed(type(), text), device(), phase);
  }
  // One of the convolutions of the block, as the libraries compute it.
  std::unique_ptr<ConvOp> Convolution(const LayoutPair& layouts = {}) const {
    ConvDescriptor d;
    d.x_layout = layouts.x;
    d.y_layout = layouts.y;
    d.batch = 2;
    d.in_channels = d.out_channels = 4;
    d.in = d.out = type();
    d.geometry = {{6, 5}, {5, 5}, {1, 1}, {2, 2}, {1, 1}};
    d.epilogue.bias = Epilogue::Bias::kPerRow;
    return Multiplexer::Convolution(device(), d);
  }
};

class FloatStepInfoTest : public StepInfoTest {};
class QuantizedStepInfoTest : public StepInfoTest {};

TEST_P(FloatStepInfoTest, ABlockOfResNet) {
  const int64_t blob = 240 * size();
  // 400 weights and the folded bias, which is float.
  const int64_t parameters = 400 * weight_size() + 4 * 4;
  const auto net = Make(BlockText());
  const std::vector<StepInfo> before = net->Steps();
  EXPECT_EQ(NamesOf(before), Names({"data", "data_data_0_split", "short + short_bn",
                                    "main + bn + scale + sum + relu", "ip", "prob"}));
  FillInputs(net.get());
  net->Forward();
  const std::vector<StepInfo> after = net->Steps();
  EXPECT_EQ(NamesOf(after), NamesOf(before));
  for (const std::vector<StepInfo>* list : {&before, &after}) {
    auto steps = ByName(*list);
    for (const char* name : {"data", "data_data_0_split"}) {
      EXPECT_EQ(steps[name].library, "") << name;
      EXPECT_EQ(steps[name].bytes, 0) << name;
      EXPECT_EQ(steps[name].operations, 0) << name;
    }
    // 240 sums of 100 products each.
    const StepInfo& branch = steps["short + short_bn"];
    EXPECT_EQ(branch.layer_types, Names({"Convolution", "BatchNorm"}));
    EXPECT_EQ(branch.types, TypeTriple::Equal(type()));
    EXPECT_EQ(branch.operations, 2 * 24000);
    const auto conv = Convolution(branch.layouts);
    EXPECT_EQ(branch.library, conv->library());
    // In NHWC cuDNN gets 8 channels, 4 of them zeros; matrix units get rows of whole tiles.
    const bool padded = branch.layouts.y == Layout::kNHWC;
    const int64_t zeros = branch.library == "matrix" ? conv->prepared_bytes() - 400 * size()
                          : padded                   ? 400 * size()
                                                     : 0;
    EXPECT_GE(zeros, 0);
    EXPECT_EQ(branch.bytes, 2 * blob + parameters + zeros);
    if (!padded) {
      EXPECT_EQ(branch.workspace_bytes, conv->workspace_bytes());
    }
    // It also reads the other branch; the sum and the activation are an operation each.
    const StepInfo& block = steps["main + bn + scale + sum + relu"];
    EXPECT_EQ(block.bytes, 3 * blob + parameters + zeros);
    EXPECT_EQ(block.operations, 2 * 24000 + 2 * 240);
    // `rows` reads the weights in their own type.
    const int64_t ip_size = steps["ip"].library == "rows" ? size() : weight_size();
    // After a block in NHWC the blob is read and written once more, in C order.
    const int64_t converted = steps["ip"].conversions * 2 * blob;
    EXPECT_EQ(steps["ip"].bytes, blob + 6 * size() + 360 * ip_size + 3 * 4 + converted);
    EXPECT_EQ(steps["ip"].operations, 2 * 2 * 120 * 3);
    EXPECT_NE(steps["ip"].library, "kernels");
    EXPECT_EQ(steps["prob"].library, "kernels");
    EXPECT_EQ(steps["prob"].bytes, 2 * 6 * size());
    EXPECT_EQ(steps["prob"].operations, std::nullopt);
  }
}

TEST_P(FloatStepInfoTest, LayerByLayer) {
  const int64_t blob = 240 * size();
  const auto net = Make("force_backward: true " + BlockText());
  auto steps = ByName(net->Steps());
  EXPECT_EQ(steps.size(), 11u);
  for (const char* name : {"short", "main"}) {
    EXPECT_EQ(steps[name].bytes, 2 * blob + 400 * weight_size() + 4 * 4) << name;
    EXPECT_EQ(steps[name].operations, 2 * 24000) << name;
    EXPECT_EQ(steps[name].library, Convolution()->library()) << name;
    EXPECT_EQ(steps[name].workspace_bytes, Convolution()->workspace_bytes()) << name;
  }
  // Layers without an operator read their float parameters.
  EXPECT_EQ(steps["bn"].bytes, 2 * blob + 9 * 4);
  EXPECT_EQ(steps["scale"].bytes, 2 * blob + 8 * 4);
  EXPECT_EQ(steps["sum"].bytes, 3 * blob);
  EXPECT_EQ(steps["relu"].bytes, 2 * blob);
  EXPECT_EQ(steps["bn"].operations, 2 * 240);
  EXPECT_EQ(steps["scale"].operations, 2 * 240);
  EXPECT_EQ(steps["sum"].operations, 2 * 240);  // one product, one addition
  EXPECT_EQ(steps["relu"].operations, 240);
  for (const char* name : {"bn", "scale", "sum", "relu"}) {
    EXPECT_EQ(steps[name].library, "kernels") << name;
    EXPECT_EQ(steps[name].workspace_bytes, 0) << name;
  }
}

TEST_P(FloatStepInfoTest, NoBlobIsComputed) {
  const auto net = Make(BlockText()), other = Make(BlockText());
  BlobBase& prob = *net->BlobByName("prob");
  const std::vector<double> sevens(prob.count(), 7);
  prob.SetData(sevens);
  FillInputs(net.get());
  net->Steps();
  EXPECT_EQ(prob.DataAsDouble(), sevens);
  FillInputs(other.get());
  net->Forward();
  other->Forward();
  EXPECT_EQ(Values(*net, "prob"), Values(*other, "prob"));
}

TEST_P(FloatStepInfoTest, OtherShapesAndKeptBlobs) {
  const auto net = Make(BlockText());
  const StepInfo before = ByName(net->Steps())["short + short_bn"];
  net->BlobByName("data")->Reshape({4, 4, 6, 5});
  const StepInfo after = ByName(net->Steps())["short + short_bn"];
  EXPECT_EQ(after.operations, 2 * *before.operations);
  EXPECT_EQ(after.bytes - before.bytes, 2 * 240 * size());
  EXPECT_EQ(net->BlobByName("prob")->shape(0), 4);
  net->Keep({"short"});
  EXPECT_EQ(ByName(net->Steps()).count("short + short_bn"), 0u);
  EXPECT_EQ(ByName(net->Steps()).count("short"), 1u);
}

// Each of 2 x 6 x 20 inputs of a deconvolution is multiplied by the 4 x 4 weights of 8 / 2 outputs.
TEST_P(FloatStepInfoTest, DeconvolutionAndPooling) {
  const auto net = Make(
      InputText("data", {2, 6, 4, 5}) +
      LayerText("Deconvolution", "deconv", "data", "deconv",
                "convolution_param { num_output: 8 kernel_size: 4 stride: 4 "
                "group: 2 bias_term: false }") +
      LayerText("Pooling", "pool", "deconv", "pool", "pooling_param { kernel_size: 2 stride: 2 }"));
  auto steps = ByName(net->Steps());
  EXPECT_EQ(steps["deconv"].operations, 2 * 2 * 6 * 20 * 4 * 16);
  const int64_t top = 2 * 8 * 16 * 20 * size();
  const int64_t weights = steps["deconv"].bytes - 2 * 6 * 20 * size() - top;
  EXPECT_TRUE(weights == 6 * 4 * 16 * size() || weights == 6 * 4 * 16 * weight_size()) << weights;
  EXPECT_EQ(steps["pool"].bytes, top + top / 4);
  EXPECT_EQ(steps["pool"].operations, std::nullopt);
  EXPECT_EQ(steps["pool"].library, device() == Runtime::Get().cpu() ? "native" : "generated");
}

TEST_P(FloatStepInfoTest, EachLayerIsAStepInPhaseTrain) {
  const auto net = Make(InputText("data", {2, 3}) + InnerProductText("ip", "data", 4) +
                            ReluText("relu", "ip") + LayerText("Dropout", "drop", "ip", "ip"),
                        TRAIN);
  const std::vector<StepInfo> steps = net->Steps();
  EXPECT_EQ(NamesOf(steps), Names({"data", "ip", "relu", "drop"}));
  EXPECT_EQ(steps[2].bytes, 2 * 8 * size());  // in place: read and written
  EXPECT_EQ(steps[2].operations, 8);
  EXPECT_EQ(steps[3].operations, std::nullopt);
  // In phase TEST Dropout does nothing.
  const auto test =
      Make("force_backward: true " + InputText("data", {2, 3}) + InnerProductText("ip", "data", 4) +
           LayerText("Dropout", "drop", "ip", "ip"));
  EXPECT_EQ(test->Steps()[2].bytes, 0);
  EXPECT_EQ(test->Steps()[2].operations, 0);
}

TEST_P(QuantizedStepInfoTest, CodesAndTheirFactors) {
  const auto net =
      Make(InputText("data", {2, 4, 7, 7}) +
           LayerText("Convolution", "conv", "data", "conv",
                     "convolution_param { num_output: 4 kernel_size: 4 "
                     "weight_filler { type: 'uniform' min: -0.4 max: 0.4 } }") +
           LayerText("ReLU", "relu", "conv", "relu") + InnerProductText("ip", "relu", 3));
  net->UsePlaceholderRanges();
  // Each channel has a bias of 8 bytes, and multiplier and shift of 4. Weights are packed for
  // matrix units, and those of one byte for the CPU's instructions, with zeros that fill a
  // register.
  const auto expect_bytes = [&](const StepInfo& step, int64_t blobs, int64_t weights,
                                int64_t channels) {
    const int64_t rest = blobs + channels * 16;
    const bool host = device() == Runtime::Get().cpu();
    if (host ? type() != kQuant8 : !device()->info().matrix) {
      EXPECT_EQ(step.bytes, rest + weights * weight_size()) << step.name();
    } else {
      EXPECT_GE(step.bytes, rest + weights * weight_size()) << step.name();
      EXPECT_LE(step.bytes, rest + 16 * weights * weight_size()) << step.name();
    }
  };
  auto steps = ByName(net->Steps());
  EXPECT_EQ(NamesOf(net->Steps()), Names({"data", "data_as_quant8", "conv + relu", "ip"}));
  // The cast that the net added reads floats.
  EXPECT_EQ(steps["data_as_quant8"].bytes, 392 * 4 + 392);
  EXPECT_EQ(steps["data_as_quant8"].library, "kernels");
  expect_bytes(steps["conv + relu"], 2 * 4 * 49 + 128, 256, 4);
  EXPECT_EQ(steps["conv + relu"].operations, 2 * 128 * 64 + 128);
  expect_bytes(steps["ip"], 128 + 6, 192, 3);
  EXPECT_EQ(steps["ip"].operations, 2 * 2 * 64 * 3);
  net->Keep({"conv"});
  steps = ByName(net->Steps());
  EXPECT_EQ(steps.size(), 5u);
  expect_bytes(steps["conv"], 2 * 4 * 49 + 128, 256, 4);
  EXPECT_EQ(steps["conv"].operations, 2 * 128 * 64);
  EXPECT_EQ(steps["relu"].bytes, 2 * 128);
  EXPECT_EQ(steps["relu"].operations, 128);
}

std::vector<DeviceType> FloatAndHalf() { return DevicesAndTypes({kFloat, kHalf}); }

INSTANTIATE_TEST_SUITE_P(All, FloatStepInfoTest, testing::ValuesIn(FloatAndHalf()),
                         [](const auto& info) { return TestName(info.param); });
INSTANTIATE_TEST_SUITE_P(All, QuantizedStepInfoTest, testing::ValuesIn(DevicesAndTypes({kQuant8})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

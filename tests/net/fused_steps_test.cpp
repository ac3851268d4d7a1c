// Steps that cover several layers: values by hand, blobs that are not written, and memory.
#include "caffe/core/log.hpp"
#include "caffe/net/plan.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

using Numbers = std::vector<double>;

std::string LayerText(const std::string& type, const std::string& name, const std::string& bottom,
                      const std::string& top, const std::string& more = "") {
  return "layer { name: '" + name + "' type: '" + type + "' bottom: '" + bottom + "' top: '" + top +
         "' " + more + " } ";
}

std::string ConvText(const std::string& name, const std::string& bottom, const std::string& top,
                     int outputs = 4) {
  return LayerText(
      "Convolution", name, bottom, top,
      Concat("convolution_param { num_output: ", outputs,
             " kernel_size: 3 pad: 1 weight_filler { type: 'uniform' min: -0.4 max: 0.4 } "
             "bias_filler { type: 'uniform' min: -0.4 max: 0.4 } }"));
}

std::string ScaleText(const std::string& name, const std::string& bottom, const std::string& top) {
  return LayerText("Scale", name, bottom, top,
                   "scale_param { bias_term: true filler { type: 'uniform' min: 0.5 max: 1.5 } "
                   "bias_filler { type: 'uniform' min: -0.5 max: 0.5 } }");
}

// A block of ResNet, its blobs named one by one or in place.
std::string BlockText(bool in_place) {
  const auto top = [in_place](const std::string& block, const std::string& own) {
    return in_place ? block : own;
  };
  return InputText("data", {2, 4, 6, 5}) + ConvText("short", "data", "short") +
         LayerText("BatchNorm", "short_bn", "short", top("short", "short_bn")) +
         ConvText("main", "data", "main") +
         LayerText("BatchNorm", "bn", "main", top("main", "bn")) +
         ScaleText("scale", top("main", "bn"), top("main", "scale")) +
         "layer { name: 'sum' type: 'Eltwise' bottom: '" + top("short", "short_bn") +
         "' bottom: '" + top("main", "scale") +
         "' top: 'sum' eltwise_param { coeff: 1 coeff: 0.5 } } " +
         LayerText("ReLU", "relu", "sum", top("sum", "relu")) +
         InnerProductText("ip", top("sum", "relu"), 3);
}

class FusedStepsTest : public testing::TestWithParam<DeviceType> {
 protected:
  std::unique_ptr<Net> Make(const std::string& text) const {
    const auto [device, type] = GetParam();
    auto net = MakeNet(
        Concat("data_type: ", DataTypeProto_Name(static_cast<DataTypeProto>(type.info().proto)),
               " ", text),
        device);
    for (const auto& layer : net->layers()) {
      if (layer->layer_param().type() != "BatchNorm") continue;
      layer->blobs()[0]->SetData(TestNumbers(layer->blobs()[0]->count(), 7));
      Numbers variance = TestNumbers(layer->blobs()[1]->count(), 8);
      for (double& value : variance) value = 4 + 2 * value;
      layer->blobs()[1]->SetData(variance);
      layer->blobs()[2]->SetData({3});
    }
    FillInputs(net.get());
    return net;
  }
  static std::map<std::string, Numbers> All(const Net& net) {
    std::map<std::string, Numbers> values;
    for (const std::string& name : net.blob_names()) values[name] = Values(net, name);
    return values;
  }
  static std::map<std::string, Numbers> LayerByLayer(Net* net) {
    net->set_after_forward([](int) {});
    net->Forward();
    net->set_after_forward(nullptr);
    return All(*net);
  }
  void ExpectSame(const std::map<std::string, Numbers>& actual,
                  const std::map<std::string, Numbers>& expected) const {
    for (const auto& [name, values] : expected) {
      ExpectNear(actual.at(name), values, 4 * Tolerance(GetParam().type), name);
    }
  }
};

TEST_P(FusedStepsTest, ABlockOfResNetIsOneStep) {
  for (const bool in_place : {false, true}) {
    const auto net = Make(BlockText(in_place));
    std::vector<size_t> sizes;
    for (const Step& step : net->plan().steps) {
      if (step.fused()) sizes.push_back(step.nodes.size());
    }
    EXPECT_EQ(sizes, std::vector<size_t>({2, 5}));  // short + BatchNorm; main … ReLU
    net->Forward();
    const auto fused = All(*net);
    ExpectSame(fused, LayerByLayer(net.get()));
    net->Forward();
    EXPECT_EQ(All(*net), fused);
  }
}

// Each activation that a convolution can do, in place and with a top of its own.
TEST_P(FusedStepsTest, EveryActivation) {
  std::vector<std::pair<std::string, std::string>> activations{
      {"ReLU", ""},
      {"ReLU", "relu_param { negative_slope: 0.2 }"},
      {"ReLU6", ""},
      {"Clip", "clip_param { min: -0.3 max: 0.4 }"},
      {"PReLU", "prelu_param { filler { type: 'uniform' min: 0 max: 0.5 } }"},
      {"PReLU", "prelu_param { channel_shared: true }"},
      {"ELU", ""}};
  for (const ElementFunction::Kind kind : ElementFunction::Kinds()) {
    const ElementFunction::Row& row = ElementFunction::RowOf(kind);
    const bool activation = ElementFunction{kind}.activation();
    if (activation && !row.summary.empty()) activations.emplace_back(row.name, "");
  }
  const bool slow = CompilesSlowly(*GetParam().device);
  if (slow && GetParam().type != kFloat) GTEST_SKIP() << "all activations in float alone";
  for (const auto& [type, parameter] : activations) {
    for (const char* const top : {"conv", "act"}) {
      for (const bool product : {false, true}) {
        if (slow && (std::string_view(top) == "act" || product)) continue;
        const auto net = Make(
            InputText("data", {2, 4, 6, 5}) +
            (product ? InnerProductText("conv", "data", 6) : ConvText("conv", "data", "conv")) +
            LayerText(type, "act", "conv", top, parameter));
        EXPECT_EQ(net->plan().fused_steps(), 1) << type << parameter;
        net->Forward();
        const auto fused = All(*net);
        ExpectSame(fused, LayerByLayer(net.get()));
      }
    }
  }
}

// The first backward of a net in phase TEST repeats the layers of its steps; the next passes have
// no such steps.
TEST_P(FusedStepsTest, BackwardRunsLayerByLayer) {
  const std::string loss =
      "layer { name: 'loss' type: 'Reduction' bottom: 'ip' top: 'loss' loss_weight: 1 "
      "reduction_param { operation: SUMSQ } }";
  for (const bool in_place : {false, true}) {
    for (const std::string setting : {"", "reduced_memory_inference: false "}) {
      const auto net = Make(setting + BlockText(in_place) + loss);
      const auto expected = Make("force_backward: true " + BlockText(in_place) + loss);
      EXPECT_EQ(net->plan().fused_steps(), 2);
      EXPECT_EQ(expected->plan().fused_steps(), 0);
      for (int pass = 0; pass < 2; ++pass) {
        for (Net* each : {net.get(), expected.get()}) {
          each->ClearParamDiffs();
          each->Forward();
          each->Backward();
        }
        // The blobs after the steps were computed from their results, which are rounded otherwise.
        const double tolerance = pass == 0 ? 8 * Tolerance(GetParam().type) : 0;
        for (const auto& [name, values] : All(*expected)) {
          ExpectNear(Values(*net, name), values, tolerance, name);
        }
        for (size_t i = 0; i < net->params().size(); ++i) {
          ExpectNear(net->params()[i]->DiffAsDouble(), expected->params()[i]->DiffAsDouble(),
                     tolerance, net->params()[i]->name());
        }
      }
      EXPECT_EQ(net->plan().fused_steps(), 0);
    }
  }
}

TEST_P(FusedStepsTest, WeightsThatChangeAreFoldedAgain) {
  const auto net = Make(BlockText(false));
  net->Forward();
  const auto& scale = net->LayerByName("scale")->blobs()[0];
  scale->SetData(Numbers(scale->count(), -1.25));
  const auto& weights = net->LayerByName("main")->blobs()[0];
  weights->SetData(TestNumbers(weights->count(), 21));
  net->Forward();
  const auto fused = All(*net);
  ExpectSame(fused, LayerByLayer(net.get()));
}

TEST_P(FusedStepsTest, OtherShapes) {
  const auto net =
      Make(InputText("data", {2, 4, 6, 5}) + ConvText("conv", "data", "conv") +
           ScaleText("scale", "conv", "scale") + LayerText("ReLU", "relu", "scale", "relu"));
  net->Forward();
  for (const Shape& shape : {Shape{1, 4, 3, 9}, Shape{3, 4, 8, 8}, Shape{2, 4, 6, 5}}) {
    net->BlobByName("data")->Reshape(shape);
    // A blob that was not stored is of the shapes before.
    FillInputs(net.get());
    net->Forward();
    EXPECT_EQ(net->BlobByName("conv")->shape(), shape);
    const auto fused = All(*net);
    ExpectSame(fused, LayerByLayer(net.get()));
  }
}

TEST_P(FusedStepsTest, KeptBlobsAreWritten) {
  const auto net = Make(BlockText(false));
  net->Keep({"bn"});
  std::vector<std::string> steps;
  for (const Step& step : net->plan().steps) {
    if (step.fused()) steps.push_back(std::to_string(step.nodes.size()));
  }
  // short + BatchNorm; main + BatchNorm; Scale + sum + ReLU.
  EXPECT_EQ(steps, std::vector<std::string>({"2", "2", "3"}));
  net->Forward();
  BlobBase& data = *net->BlobByName("data");
  const Numbers kept = Values(*net, "bn");
  data.SetData(TestNumbers(data.count(), 99));
  EXPECT_EQ(Values(*net, "bn"), kept);
  EXPECT_THROW(net->Keep({"nothing"}), Error);
}

// Reading a blob that was not written takes the shapes of the last forward.
TEST_P(FusedStepsTest, AnErrorIfTheBottomWasReshaped) {
  const auto net = Make(InputText("data", {2, 4, 6, 5}) + ConvText("conv", "data", "conv") +
                        LayerText("ReLU", "relu", "conv", "relu"));
  net->Forward();
  net->BlobByName("data")->Reshape({1, 4, 9, 9});
  try {
    net->BlobByName("conv")->DataAsDouble();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("blob conv was not kept by the last forward"),
              std::string::npos)
        << error.what();
  }
}

TEST_P(FusedStepsTest, BlobsOfOneTimeShareMemory) {
  const std::string chain =
      InputText("data", {2, 4, 16, 16}) + ConvText("conv1", "data", "conv1") +
      LayerText("LRN", "lrn1", "conv1", "lrn1") + ConvText("conv2", "lrn1", "conv2") +
      LayerText("LRN", "lrn2", "conv2", "lrn2") + ConvText("conv3", "lrn2", "conv3") +
      LayerText("TanH", "tanh3", "conv3", "conv3") + InnerProductText("ip", "conv3", 3);
  const auto apart = Make("reduced_memory_inference: false " + chain);
  const auto net = Make(chain);
  apart->Forward();
  net->Forward();
  const int64_t blob = net->BlobByName("conv1")->bytes();
  const int64_t saved = apart->memory_needs().data - net->memory_needs().data;
  if (InCOrder(net.get())) {
    EXPECT_EQ(saved, 3 * blob);
  } else {
    EXPECT_GE(saved, 3 * blob);  // arrays in other layouts share memory, too
  }
  EXPECT_EQ(Values(*net, "ip"), Values(*apart, "ip"));
  // Blobs that lost their memory are computed when they are read, from the last to the first and
  // back.
  for (const char* name : {"lrn2", "conv1", "lrn1", "conv2", "conv3"}) {
    EXPECT_EQ(Values(*net, name), Values(*apart, name)) << name;
  }
  net->Forward();
  EXPECT_EQ(All(*net), All(*apart));
  // Parts of a forward read and write what they need.
  net->Forward();
  net->Forward(3, 4);
  // Where layouts differ, the library of a part may be another one.
  const bool matrix = net->layers()[0]->device()->info().matrix;
  ExpectNear(Values(*net, "conv2"), Values(*apart, "conv2"),
             matrix ? 8 * Tolerance(GetParam().type) : 0, "conv2 of a part");
  net->Keep({"conv1"});
  net->Forward();
  const Numbers kept = Values(*net, "conv1");
  net->BlobByName("data")->SetData(Numbers(net->BlobByName("data")->count(), 1));
  EXPECT_EQ(Values(*net, "conv1"), kept);
}

// A view shows what each forward computes.
TEST_P(FusedStepsTest, ViewsAreCurrent) {
  for (const char* const setting : {"", "reduced_memory_inference: false "}) {
    const auto net = Make(setting + BlockText(false));
    net->Forward();
    const auto view = net->BlobByName("bn")->data_memory()->View();
    BlobBase& data = *net->BlobByName("data");
    data.SetData(TestNumbers(data.count(), 99));
    net->Forward();
    const auto again = Make(BlockText(false));
    again->BlobByName("data")->SetData(TestNumbers(data.count(), 99));
    again->Forward();
    EXPECT_EQ(std::memcmp(view.get(), again->BlobByName("bn")->host_data(),
                          net->BlobByName("bn")->bytes()),
              0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, FusedStepsTest, testing::ValuesIn(DevicesAndFloatsOfNets()),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

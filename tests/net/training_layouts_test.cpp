// Blobs in kNHWC in training, with a library for convolutions that prefers it: the same numbers as
// the layers one by one in C order, up to rounding.
#include <cmath>

#include "caffe/device/runtime.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/multiplexer.hpp"
#include "caffe/net/step_info.hpp"
#include "caffe/solver/solver.hpp"
#include "net/channels_last_library.hpp"
#include "net/layer_text.hpp"
#include "net/net_support.hpp"
#include "net/training_support.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

constexpr int kTrain = 0;

std::string ConvText(const std::string& name, const std::string& bottom, int outputs,
                     const std::string& more = "") {
  return LayerText("Convolution", name, {bottom}, name,
                   Concat("convolution_param { num_output: ", outputs,
                          " kernel_size: 3 pad: 1 weight_filler { type: 'uniform' min: -0.4 "
                          "max: 0.4 } bias_filler { type: 'constant' value: 0.1 } } ",
                          more));
}

std::string NormText(const std::string& blob, bool relu) {
  const std::string text =
      LayerText("BatchNorm", blob + "_bn", {blob}, blob) +
      LayerText("Scale", blob + "_scale", {blob}, blob,
                "scale_param { bias_term: true filler { type: 'uniform' min: 0.5 max: 1.5 } "
                "bias_filler { type: 'uniform' min: -0.5 max: 0.5 } }");
  return relu ? text + ReluText(blob + "_relu", blob) : text;
}

std::string PoolText(const std::string& name, const std::string& bottom, const std::string& more) {
  return LayerText("Pooling", name, {bottom}, name, "pooling_param { " + more + " }");
}

// A block of ResNet between poolings, and a branch through layers that know C order only. 9
// channels are a span and one more; 41 images are several rows of each work item.
std::string NetText() {
  return InputText("data", {41, 3, 8, 7}) + InputText("label", {41}) +
         ConvText("conv1", "data", 9) + NormText("conv1", true) +
         PoolText("pool1", "conv1", "kernel_size: 3 stride: 2") + ConvText("conv2", "pool1", 9) +
         NormText("conv2", true) + LayerText("Eltwise", "sum", {"pool1", "conv2"}, "sum") +
         ReluText("sum_relu", "sum") +
         LayerText("LRN", "norm", {"sum"}, "norm", "lrn_param { local_size: 3 alpha: 0.5 }") +
         ConvText("conv3", "norm", 8) + NormText("conv3", false) + ConvText("conv4", "sum", 8) +
         LayerText("Concat", "concat", {"conv3", "conv4"}, "concat") +
         PoolText("pool2", "concat", "pool: AVE kernel_size: 2 stride: 2") +
         ConvText("conv5", "pool2", 4) +
         PoolText("pool3", "conv5", "pool: AVE kernel_size: 2 pad: 1") +
         InnerProductText("ip", "pool3", 3) +
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' } ";
}

// "conv1: NHWC +1", for steps that are not computed in C order alone.
std::string Layouts(Net* net) {
  std::string text;
  for (const StepInfo& step : net->Steps()) {
    if (step.layout() != "NCHW") text += step.layers[0] + ": " + step.layout() + "\n";
  }
  return text;
}

class TrainingLayoutsTest : public testing::TestWithParam<DeviceType> {
 protected:
  void SetUp() override { AddLibrary(ChannelsLastLibrary("training_channels_last", false)); }
  void TearDown() override { RemoveLibrary("training_channels_last"); }

  static std::unique_ptr<Net> Make(const std::string& text = NetText()) {
    const auto [device, type] = GetParam();
    auto net = MakeNet(TypeText(type) + text, device, kTrain);
    net->set_frees_memory(true);
    FillInputs(net.get());
    return net;
  }
  static std::vector<Numbers> ResultsInCOrder(Net* net) {
    Looks looks;
    net->AddObserver(&looks);
    const auto results = TrainingResults(net);
    net->RemoveObserver(&looks);
    return results;
  }
  // The error against a net in double is that of the layers one by one.
  static void ExpectAgree(const std::vector<Numbers>& own, const std::vector<Numbers>& apart,
                          const std::vector<Numbers>& exact) {
    const double tolerance = Tolerance(GetParam().type);
    for (size_t i = 0; i < exact.size(); ++i) {
      const double norm = Distance(exact[i], Numbers(exact[i].size())) + 1e-2;
      EXPECT_LT(Distance(own[i], exact[i]),
                1.5 * Distance(apart[i], exact[i]) + 5 * tolerance * norm)
          << "parameter " << i;
    }
  }
};

TEST_P(TrainingLayoutsTest, ChainsOfLayersStayInTheLayout) {
  EXPECT_EQ(Layouts(Make().get()),
            "conv1: NCHW/NHWC\nconv1_bn: NHWC\npool1: NHWC\npool1_pool1_0_split: NHWC\n"
            "conv2: NHWC\nconv2_bn: NHWC\nsum: NHWC\nsum_relu: NHWC\nsum_sum_relu_0_split: NHWC\n"
            "norm: NCHW +1\nconv3: NHWC +1\nconv3_bn: NHWC\nconv4: NHWC\nconcat: NCHW +2\n"
            "conv5: NHWC +1\npool3: NHWC\nip: NCHW +1\n");
}

TEST_P(TrainingLayoutsTest, AStepComputesWhatItsLayersComputeInCOrder) {
  const auto exact = MakeNet(TypeText(kDouble) + NetText(), Runtime::Get().cpu(), kTrain);
  FillInputs(exact.get());
  const auto own = Make(), apart = Make();
  for (const auto& net : {own.get(), apart.get()}) {
    for (size_t i = 0; i < net->learnable_params().size(); ++i) {
      net->learnable_params()[i]->SetData(exact->learnable_params()[i]->DataAsDouble());
    }
  }
  const auto expected = ResultsInCOrder(exact.get()), in_c_order = ResultsInCOrder(apart.get());
  ExpectAgree(TrainingResults(own.get()), in_c_order, expected);
  // The arrays have their places now; statistics are counted once more.
  const auto again = TrainingResults(own.get());
  for (size_t i = 0; i < again.size(); ++i) {
    if (i < own->params_lr().size() && own->params_lr()[i] == 0) continue;
    EXPECT_LT(Distance(again[i], expected[i]),
              1.5 * Distance(in_c_order[i], expected[i]) +
                  5 * Tolerance(GetParam().type) *
                      (Distance(expected[i], Numbers(expected[i].size())) + 1e-2))
        << "parameter " << i;
  }
}

// SqueezeNet has blobs that exist in kNHWC alone, Splits and Concats.
TEST_P(TrainingLayoutsTest, TheAllocatorAgreesWithThePrediction) {
  Device* const device = GetParam().device;
  if (GetParam().type != kFloat || CompilesSlowly(*device)) return;
  NetParameter given, parameter;
  ReadTextProto(Concat(CAFFE_SOURCE_DIR, "/models/squeezenet/train_val.prototxt"), &given);
  ParseTextProto(InputText("data", {2, 3, 227, 227}) + InputText("label", {2}), "inputs",
                 &parameter);
  for (const LayerParameter& layer : given.layer()) {
    if (layer.type() != "Data") *parameter.add_layer() = layer;
  }
  const int64_t before = device->bytes_in_use();
  const auto net = Make(parameter.DebugString());
  const MemoryNeeds needs = net->memory_needs();
  TrainingPass(net.get());
  device->ReleaseCache();
  device->ResetPeak();
  TrainingPass(net.get());
  const double used = static_cast<double>(device->bytes_peak() - before);
  EXPECT_NEAR(used, static_cast<double>(needs.total()), 0.02 * static_cast<double>(needs.total()))
      << needs.ToString() << "; after a pass " << net->memory_needs().ToString()
      << Layouts(net.get());
}

// Compares the gradients with differences of the loss.
TEST_P(TrainingLayoutsTest, GradientsAreDerivatives) {
  if (GetParam().type != kDouble) return;
  const auto net = Make();
  ExpectGradientsAreDerivatives(net.get(), 1e-6, 1e-5);
}

// Blobs in kNHWC alone are computed in C order when they are read; their gradients are not kept.
TEST_P(TrainingLayoutsTest, BlobsAreComputedWhenTheyAreRead) {
  const auto net = Make(), layers = Make();
  Looks looks;
  layers->AddObserver(&looks);
  net->Forward();
  layers->Forward();
  const double tolerance = 10 * Tolerance(GetParam().type);
  for (const char* blob : {"conv1", "pool1", "sum", "norm", "concat", "conv5", "ip"}) {
    ExpectNear(Values(*net, blob), Values(*layers, blob), tolerance, blob);
  }
  const auto statistics = net->LayerByName("conv1_bn")->blobs()[2]->DataAsDouble();
  EXPECT_EQ(statistics, layers->LayerByName("conv1_bn")->blobs()[2]->DataAsDouble());
  net->ClearParamDiffs();
  net->Backward();
  for (const char* blob : {"conv5", "pool1"}) {
    ExpectNear(Values(*net, blob), Values(*layers, blob), tolerance, blob);
    const std::string message = MessageOf([&] { net->BlobByName(blob)->DiffAsDouble(); });
    EXPECT_NE(message.find(Concat("the gradient of blob ", blob, " was not kept")),
              std::string::npos)
        << message;
  }
  layers->RemoveObserver(&looks);
}

// Blobs that the user keeps, and those with a view, are written in C order, and so are their diffs.
TEST_P(TrainingLayoutsTest, KeptAndViewedBlobs) {
  const auto net = Make(), layers = Make();
  const auto in_c_order = ResultsInCOrder(layers.get());
  net->Keep({"pool1", "conv5"});
  const auto view = net->BlobByName("conv4")->data_memory()->View();
  const auto diff = net->BlobByName("sum")->diff_memory()->View();
  const auto results = TrainingResults(net.get());
  const double tolerance = 10 * Tolerance(GetParam().type);
  for (const char* blob : {"pool1", "conv4", "conv5"}) {
    ExpectNear(Values(*net, blob), Values(*layers, blob), tolerance, blob);
  }
  for (const char* blob : {"pool1", "conv5", "sum"}) {
    ExpectNear(net->BlobByName(blob)->DiffAsDouble(), layers->BlobByName(blob)->DiffAsDouble(),
               tolerance, blob);
  }
  EXPECT_EQ(results.size(), in_c_order.size());
}

// Other shapes.
TEST_P(TrainingLayoutsTest, Reshapes) {
  const auto net = Make(), layers = Make();
  TrainingPass(net.get());
  for (const int64_t images : {5, 50}) {
    for (Net* one : {net.get(), layers.get()}) {
      one->BlobByName("data")->Reshape({images, 3, 8, 7});
      one->BlobByName("label")->Reshape({images});
      FillInputs(one);
    }
    const auto expected = ResultsInCOrder(layers.get()), results = TrainingResults(net.get());
    for (size_t i = 0; i < results.size(); ++i) {
      if (i < net->params_lr().size() && net->params_lr()[i] == 0) continue;
      const double norm = Distance(expected[i], Numbers(expected[i].size())) + 1e-2;
      EXPECT_LT(Distance(results[i], expected[i]), 40 * Tolerance(GetParam().type) * norm)
          << images << " images, parameter " << i;
    }
  }
}

// The updates of a solver, with graphs where the device has them.
TEST_P(TrainingLayoutsTest, ASolverTrains) {
  std::unique_ptr<Solver> solvers[2];
  Looks looks;
  for (const int i : {0, 1}) {
    SolverParameter parameter;
    ParseTextProto(
        "base_lr: 0.01 momentum: 0.9 lr_policy: 'fixed' random_seed: 5 loss_scale: 1 "
        "snapshot_after_train: false ",
        "test", &parameter);
    ParseTextProto(TypeText(GetParam().type) + NetText(), "net", parameter.mutable_net_param());
    solvers[i] = std::make_unique<Solver>(parameter, GetParam().device);
    solvers[i]->set_frees_memory(true);
    FillInputs(solvers[i]->net());
    if (i == 1) solvers[i]->net()->AddObserver(&looks);
    solvers[i]->Step(5);
    if (i == 1) solvers[i]->net()->RemoveObserver(&looks);
  }
  const auto& own = solvers[0]->net()->learnable_params();
  const auto& expected = solvers[1]->net()->learnable_params();
  for (size_t i = 0; i < own.size(); ++i) {
    ExpectNear(own[i]->DataAsDouble(), expected[i]->DataAsDouble(), 20 * Tolerance(GetParam().type),
               Concat("parameter ", i));
  }
}

// Layers that run again do so in C order.
TEST_P(TrainingLayoutsTest, RecomputedLayersAreInCOrder) {
  const auto net = Make(InputText("data", {4, 3, 8, 7}) + InputText("label", {4}) +
                        ConvText("conv1", "data", 4, "recompute: true") +
                        ConvText("conv2", "conv1", 4) + InnerProductText("ip", "conv2", 3) +
                        "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' "
                        "top: 'loss' } ");
  EXPECT_EQ(Layouts(net.get()), "");
}

INSTANTIATE_TEST_SUITE_P(All, TrainingLayoutsTest, testing::ValuesIn(DevicesAndFloatsOfNets()),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

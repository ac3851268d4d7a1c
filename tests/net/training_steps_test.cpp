// Steps of training that cover BatchNorm, Scale and ReLU with their backward pass: the same numbers
// as the layers one by one, up to rounding, and blobs that are not written.
#include <algorithm>
#include <cmath>

#include "caffe/device/runtime.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/net/plan.hpp"
#include "caffe/net/step_info.hpp"
#include "caffe/solver/solver.hpp"
#include "net/net_support.hpp"
#include "net/training_support.hpp"
#include "support/devices.hpp"
#include "support/graphs_off.hpp"

namespace caffe {
namespace {

constexpr int kTrain = 0;

std::string LayerText(const std::string& type, const std::string& name, const std::string& bottom,
                      const std::string& top, const std::string& more = "") {
  return "layer { name: '" + name + "' type: '" + type + "' bottom: '" + bottom + "' top: '" + top +
         "' " + more + " } ";
}

std::string ConvText(const std::string& name, const std::string& bottom) {
  return LayerText("Convolution", name, bottom, name,
                   "convolution_param { num_output: 5 kernel_size: 3 pad: 1 bias_term: false "
                   "weight_filler { type: 'uniform' min: -0.4 max: 0.4 } }");
}

// BatchNorm, Scale and ReLU on `blob`, in place or with tops <blob>_bn, <blob>_scale, <blob>_relu.
std::string NormText(const std::string& blob, bool in_place, bool relu,
                     const std::string& more = "") {
  const auto top = [&](const std::string& own) { return in_place ? blob : blob + own; };
  std::string text =
      LayerText("BatchNorm", blob + "_bn", blob, top("_bn"), more) +
      LayerText("Scale", blob + "_scale", top("_bn"), top("_scale"),
                "scale_param { bias_term: true filler { type: 'uniform' min: 0.5 max: 1.5 } "
                "bias_filler { type: 'uniform' min: -0.5 max: 0.5 } } " +
                    more);
  if (relu) text += LayerText("ReLU", blob + "_relu", top("_scale"), top("_relu"), more);
  return text;
}

// A block of ResNet, and an inner product with BatchNorm: rows of one element.
std::string BlockText(bool in_place, const std::string& more = "") {
  const std::string first = in_place ? "conv1" : "conv1_relu";
  const std::string second = in_place ? "conv2" : "conv2_scale";
  return InputText("data", {6, 3, 5, 4}) + InputText("label", {6}) + ConvText("conv1", "data") +
         NormText("conv1", in_place, true, more) + ConvText("conv2", first) +
         NormText("conv2", in_place, false, more) +
         "layer { name: 'sum' type: 'Eltwise' bottom: '" + first + "' bottom: '" + second +
         "' top: 'sum' } " + ReluText("sum_relu", "sum") + InnerProductText("ip1", "sum", 4) +
         NormText("ip1", in_place, true, more) +
         InnerProductText("ip2", in_place ? "ip1" : "ip1_relu", 3) +
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' "
         "} ";
}

std::vector<size_t> Sizes(const Net& net) {
  std::vector<size_t> sizes;
  for (const Step& step : net.plan().steps) {
    if (step.fused()) sizes.push_back(step.nodes.size());
  }
  return sizes;
}

const std::vector<size_t> kSizes = {3, 2, 3};

class TrainingStepsTest : public testing::TestWithParam<DeviceType> {
 protected:
  static std::string Typed(DataType type, const std::string& text) {
    return Concat("data_type: ", DataTypeProto_Name(static_cast<DataTypeProto>(type.info().proto)),
                  " ", text);
  }
  std::unique_ptr<Net> Make(const std::string& text) const {
    auto net = MakeNet(Typed(GetParam().type, text), GetParam().device, kTrain);
    net->set_frees_memory(true);
    FillInputs(net.get());
    return net;
  }
};

// The error against a net in double is that of the layers one by one.
TEST_P(TrainingStepsTest, AStepComputesWhatItsLayersCompute) {
  for (const bool in_place : {false, true}) {
    const auto exact = MakeNet(Typed(kDouble, BlockText(in_place)), Runtime::Get().cpu(), kTrain);
    FillInputs(exact.get());
    const auto steps = Make(BlockText(in_place)), layers = Make(BlockText(in_place));
    for (const auto& net : {steps.get(), layers.get()}) {
      for (size_t i = 0; i < net->learnable_params().size(); ++i) {
        net->learnable_params()[i]->SetData(exact->learnable_params()[i]->DataAsDouble());
      }
    }
    Looks looks;
    layers->AddObserver(&looks);
    EXPECT_EQ(Sizes(*steps), kSizes);
    const auto expected = TrainingResults(exact.get()), together = TrainingResults(steps.get()),
               apart = TrainingResults(layers.get());
    layers->RemoveObserver(&looks);
    for (size_t i = 0; i < expected.size(); ++i) {
      const double norm = Distance(expected[i], Numbers(expected[i].size())) + 1e-3;
      const double own = Distance(together[i], expected[i]) / norm;
      EXPECT_LT(own, 1.5 * Distance(apart[i], expected[i]) / norm + Tolerance(GetParam().type))
          << "parameter " << i;
      EXPECT_LT(own, 10 * Tolerance(GetParam().type)) << "parameter " << i;
    }
  }
}

// Compares the gradients with differences of the loss.
TEST_P(TrainingStepsTest, GradientsAreDerivatives) {
  if (GetParam().type != kDouble) return;
  const auto net = Make(BlockText(true));
  ASSERT_EQ(Sizes(*net), kSizes);
  ExpectGradientsAreDerivatives(net.get(), 1e-5, 1e-6);
}

// A blob that a step does not write is computed when it is read, without counting a pass again.
TEST_P(TrainingStepsTest, BlobsInsideAStepAreComputedWhenTheyAreRead) {
  const auto net = Make(BlockText(false)), layers = Make(BlockText(false));
  Looks looks;
  layers->AddObserver(&looks);
  net->Forward();
  layers->Forward();
  const auto statistics = [](const Net& of) {
    return of.LayerByName("conv1_bn")->blobs()[2]->DataAsDouble();
  };
  const Numbers before = statistics(*net);
  for (const char* blob : {"conv1_bn", "conv1_scale", "conv1_relu", "ip1_bn", "conv1"}) {
    ExpectNear(Values(*net, blob), Values(*layers, blob), 4 * Tolerance(GetParam().type), blob);
  }
  EXPECT_EQ(statistics(*net), before);
  net->Backward();
  const std::string message = MessageOf([&] { net->BlobByName("conv1_bn")->DiffAsDouble(); });
  EXPECT_NE(message.find("the gradient of blob conv1_bn was not kept"), std::string::npos)
      << message;
  layers->RemoveObserver(&looks);
}

// A backward pass in parts runs the layers one by one, after a forward that did not.
TEST_P(TrainingStepsTest, PartialPasses) {
  for (const bool in_place : {false, true}) {
    const auto net = Make(BlockText(in_place)), layers = Make(BlockText(in_place));
    Looks looks;
    layers->AddObserver(&looks);
    const auto expected = TrainingResults(layers.get());
    layers->RemoveObserver(&looks);
    const int last = static_cast<int>(net->layers().size()) - 1;
    for (const int cut : {4, 7, 9}) {
      net->Forward();
      net->ClearParamDiffs();
      net->Backward(last, cut);
      net->Backward(cut - 1, 0);
      for (size_t i = 0; i < net->learnable_params().size(); ++i) {
        if (net->params_lr()[i] == 0) continue;
        ExpectNear(net->learnable_params()[i]->DiffAsDouble(), expected[i],
                   10 * Tolerance(GetParam().type), Concat("cut ", cut, ", parameter ", i));
      }
    }
    TrainingPass(net.get());
    const Numbers whole = Values(*net, "ip2");
    net->Forward(0, 5);
    net->Forward(6, last);
    ExpectNear(Values(*net, "ip2"), whole, 10 * Tolerance(GetParam().type), "ip2");
  }
}

TEST_P(TrainingStepsTest, KeptAndViewedBlobsAreStored) {
  const auto net = Make(BlockText(false)), layers = Make(BlockText(false));
  Looks looks;
  layers->AddObserver(&looks);
  TrainingPass(layers.get());
  net->Keep({"conv1_bn"});
  EXPECT_EQ(Sizes(*net), std::vector<size_t>({2, 3}));
  const auto view = net->BlobByName("conv2_bn")->data_memory()->View();
  const auto diff = net->BlobByName("ip1_scale")->diff_memory()->View();
  TrainingPass(net.get());
  EXPECT_EQ(Sizes(*net), std::vector<size_t>({2}));  // ip1_bn and ip1_scale
  const double tolerance = 4 * Tolerance(GetParam().type);
  for (const char* blob : {"conv1_bn", "conv2_bn"}) {
    ExpectNear(Values(*net, blob), Values(*layers, blob), tolerance, blob);
  }
  for (const char* blob : {"conv1_bn", "ip1_scale"}) {
    ExpectNear(net->BlobByName(blob)->DiffAsDouble(), layers->BlobByName(blob)->DiffAsDouble(),
               tolerance, blob);
  }
  layers->RemoveObserver(&looks);
  // In place a blob has the content of the last layer.
  const auto in_place = Make(BlockText(true));
  in_place->Keep({"conv1"});
  EXPECT_EQ(Sizes(*in_place), kSizes);
  TrainingPass(in_place.get());
  ExpectNear(Values(*in_place, "conv1"), Values(*layers, "conv1_relu"), tolerance, "conv1");
  ExpectNear(in_place->BlobByName("conv1")->DiffAsDouble(),
             layers->BlobByName("conv1")->DiffAsDouble(), tolerance, "diff of conv1");
}

TEST_P(TrainingStepsTest, OtherwiseTheLayersRunOneByOne) {
  EXPECT_EQ(Sizes(*Make(BlockText(true, "batch_norm_param { use_global_stats: true }"))),
            std::vector<size_t>());
  const auto test =
      MakeNet(Typed(GetParam().type, "force_backward: true " + BlockText(true)), GetParam().device);
  EXPECT_EQ(Sizes(*test), std::vector<size_t>());
  const auto net = Make(BlockText(true));
  net->RequestGradients({"conv1"});
  EXPECT_EQ(Sizes(*net), std::vector<size_t>());
}

// Each array is read and written less often.
TEST_P(TrainingStepsTest, FewerLaunchesAndBytes) {
  const GraphsOff off;
  const auto net = Make(BlockText(true)), kept = Make(BlockText(false));
  kept->Keep({"conv1_bn", "conv1_scale", "conv2_bn", "ip1_bn", "ip1_scale"});
  ASSERT_EQ(Sizes(*kept), std::vector<size_t>());
  int64_t launches[2], bytes[2];
  for (const int i : {0, 1}) {
    Net& one = i == 0 ? *net : *kept;
    TrainingPass(&one);
    GetParam().device->ResetCounters();
    TrainingPass(&one);
    EXPECT_EQ(GetParam().device->counters().allocations, 0);
    EXPECT_EQ(GetParam().device->counters().copies, 0);
    launches[i] = GetParam().device->counters().launches;
    bytes[i] = 0;
    for (const StepInfo& step : one.Steps()) bytes[i] += step.bytes;
  }
  EXPECT_LT(launches[0], launches[1]);
  EXPECT_LT(bytes[0], bytes[1]);
}

// Steps run again as a whole: the same bits, if both nets are in C order.
TEST_P(TrainingStepsTest, RecomputedSteps) {
  for (const bool in_place : {false, true}) {
    const auto again = Make(BlockText(in_place, "recompute: true")),
               once = Make(BlockText(in_place));
    EXPECT_EQ(Sizes(*again), kSizes);
    const auto own = TrainingResults(again.get()), expected = TrainingResults(once.get());
    const std::vector<Step>& steps = once->plan().steps;
    if (std::none_of(steps.begin(), steps.end(),
                     [](const Step& step) { return !step.in_c_order(); })) {
      EXPECT_EQ(own, expected);
      continue;
    }
    for (size_t i = 0; i < own.size(); ++i) {
      ExpectNear(own[i], expected[i], 10 * Tolerance(GetParam().type), Concat("parameter ", i));
    }
  }
}

// The updates of a solver, with graphs where the device has them.
TEST_P(TrainingStepsTest, ASolverTrains) {
  std::unique_ptr<Solver> solvers[2];
  Looks looks;
  for (const int i : {0, 1}) {
    SolverParameter parameter;
    ParseTextProto(
        "base_lr: 0.05 momentum: 0.9 lr_policy: 'fixed' random_seed: 5 loss_scale: 1 "
        "snapshot_after_train: false ",
        "test", &parameter);
    ParseTextProto(Typed(GetParam().type, BlockText(true)), "net", parameter.mutable_net_param());
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
    ExpectNear(own[i]->DataAsDouble(), expected[i]->DataAsDouble(), 10 * Tolerance(GetParam().type),
               Concat("parameter ", i));
  }
}

INSTANTIATE_TEST_SUITE_P(All, TrainingStepsTest, testing::ValuesIn(DevicesAndFloatsOfNets()),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

// Nets with MOE layers: every way of computing them gives the values of loops over items.
#include <algorithm>
#include <cmath>
#include <functional>

#include "caffe.pb.h"
#include "caffe/device/runtime.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/net/expert_usage.hpp"
#include "caffe/net/step_info.hpp"
#include "net/moe_support.hpp"
#include "support/devices.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

using Names = std::vector<std::string>;

Device* Cpu() { return Runtime::Get().cpu(); }

std::vector<double> Diffs(const Net& net) {
  std::vector<double> all;
  for (const BlobBase* blob : net.learnable_params()) {
    const std::vector<double> diff = blob->DiffAsDouble();
    all.insert(all.end(), diff.begin(), diff.end());
  }
  return all;
}

// The names of the layers that the steps compute, each with a space after it.
std::string LayersOfSteps(Net& net) {
  std::string all;
  for (const StepInfo& step : net.Steps()) {
    for (const std::string& layer : step.layers) all += layer + " ";
  }
  return all;
}

std::string TypeText(DataType type) { return Concat("data_type_name: '", type.name(), "' "); }

class MoeNetTest : public testing::TestWithParam<DeviceType> {};

TEST_P(MoeNetTest, EveryModeAgreesWithLoops) {
  const auto [device, type] = GetParam();
  for (const auto& [items, experts, select] :
       {std::tuple(1, 3, 1), std::tuple(6, 3, 2), std::tuple(19, 5, 2), std::tuple(4, 2, 2)}) {
    for (const int phase : {0, 1}) {
      for (const bool full : {false, true}) {
        MoeCase c{items, experts, select, full};
        c.expert_type = TypeText(type);
        c.normalize = items > 6;
        const auto net = MakeNet(MoeNetText(c), device, phase);
        FillInputs(net.get());
        net->Forward();
        // The gate is float.
        const double tolerance = 8 * std::max(Tolerance(type), Tolerance(kFloat));
        ExpectNear(Values(*net, "moe"), MoeByLoops(c, *net, Cpu()), tolerance,
                   Concat(items, " items, phase ", phase, ", full_forward ", full));
        const std::vector<double> observed = Values(*net, "moe_observed");
        double sum = 0;
        for (int e = 0; e < experts; ++e) sum += observed[e];
        EXPECT_NEAR(sum, select, 1e-5);
        EXPECT_NEAR(Values(*net, "moe_expected")[0], static_cast<double>(select) / experts, 1e-6);
      }
    }
  }
}

// The experts compute in the type, and the gate in float.
TEST_P(MoeNetTest, GradientsOfBothModesAgree) {
  const auto [device, type] = GetParam();
  std::vector<std::vector<double>> gradients, inputs;
  for (const bool full : {false, true}) {
    MoeCase c{11, 4, 2, full};
    c.expert_type = TypeText(type);
    c.more = "usage_loss_weight: 0.5 load_balance_loss_weight: 0.25 z_loss_weight: 0.125";
    const auto net =
        MakeNet("force_backward: true " + MoeNetText(c) + InputText("target", {11, 7}) +
                    "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'moe' bottom: 'target'"
                    " top: 'loss' }",
                device, 0);
    uint64_t seed = 1;
    for (BlobBase* blob : net->learnable_params()) {
      std::vector<double> values = TestNumbers(blob->count(), ++seed);
      for (double& value : values) value *= 0.25;
      blob->SetData(values);
    }
    FillInputs(net.get());
    for (BlobBase* blob : net->learnable_params()) {
      blob->SetDiff(std::vector<double>(blob->count(), 0));
    }
    net->Forward();
    net->Backward();
    gradients.push_back(Diffs(*net));
    inputs.push_back(net->BlobByName("data")->DiffAsDouble());
  }
  const double tolerance = 16 * std::max(Tolerance(type), Tolerance(kFloat));
  ExpectNear(gradients[0], gradients[1], tolerance, "dE/dw");
  ExpectNear(inputs[0], inputs[1], tolerance, "dE/dx");
  double largest = 0;
  for (const double value : gradients[0]) largest = std::max(largest, std::abs(value));
  EXPECT_GT(largest, 0.01);
}

INSTANTIATE_TEST_SUITE_P(All, MoeNetTest, testing::ValuesIn(DevicesAndFloatsOfNets()),
                         [](const auto& info) { return TestName(info.param); });

// Compares the gradients of some elements of the parameters and of the input with differences.
void CheckGradients(Net* net, double step, double tolerance, const std::function<double()>& loss) {
  std::vector<BlobBase*> blobs = net->learnable_params();
  blobs.push_back(net->BlobByName("data").get());
  for (BlobBase* blob : net->learnable_params()) {
    blob->SetDiff(std::vector<double>(blob->count(), 0));
  }
  net->Forward();
  net->Backward();
  double largest = 0;
  for (BlobBase* blob : blobs) {
    const std::vector<double> diff = blob->DiffAsDouble(), values = blob->DataAsDouble();
    for (size_t i = 0; i < values.size(); i += 1 + values.size() / 12) {
      const auto at = [&](double value) {
        std::vector<double> changed = values;
        changed[i] = value;
        blob->SetData(changed);
        net->Forward();
        return loss();
      };
      const double slope = (at(values[i] + step) - at(values[i] - step)) / (2 * step);
      EXPECT_NEAR(diff[i], slope, tolerance) << blob->name() << " " << i;
      largest = std::max(largest, std::abs(slope));
    }
    blob->SetData(values);
  }
  EXPECT_GT(largest, 100 * tolerance);
}

TEST(MoeGradientTest, AgreesWithDifferences) {
  for (const bool full : {false, true}) {
    const MoeCase c{5, 3, 2, full};
    const auto net =
        MakeNet("force_backward: true data_type: CAFFE_DOUBLE " + MoeNetText(c) +
                    InputText("target", {5, 7}) +
                    "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'moe' bottom: 'target'"
                    " top: 'loss' }",
                Cpu(), 0);
    FillInputs(net.get());
    EXPECT_EQ(net->BlobByName("moe")->type(), kDouble);
    CheckGradients(net.get(), 1e-5, 1e-6, [&] { return Values(*net, "loss")[0]; });
  }
}

// With one expert for each item, a normalized weight is p / p = 1 and has no gradient.
TEST(MoeGradientTest, WithOneExpertOnlyAWeightOfPTeachesTheGate) {
  for (const bool normalize : {false, true}) {
    for (const bool full : {false, true}) {
      MoeCase c{5, 3, 1, full};
      c.normalize = normalize;
      const std::string text =
          "force_backward: true data_type: CAFFE_DOUBLE " + MoeNetText(c) +
          InputText("target", {5, 7}) +
          "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'moe' bottom: 'target' top: 'loss' }";
      testing::internal::CaptureStderr();
      const auto net = MakeNet(text, Cpu(), 0);
      const std::string log = testing::internal::GetCapturedStderr();
      EXPECT_EQ(
          log.find("no gradient for the gate; set normalize_weights: false") != std::string::npos,
          normalize)
          << log;
      testing::internal::CaptureStderr();
      MakeNet(text, Cpu(), 1);
      EXPECT_EQ(testing::internal::GetCapturedStderr().find("no gradient for the gate"),
                std::string::npos)
          << "phase TEST does not train";
      FillInputs(net.get());
      CheckGradients(net.get(), 1e-6, 1e-5, [&] { return Values(*net, "loss")[0]; });
      double largest = 0;
      for (int i = 0; i < 4; ++i) {
        for (const double d : net->params()[i]->DiffAsDouble()) {
          largest = std::max(largest, std::abs(d));
        }
      }
      if (normalize) {
        EXPECT_LT(largest, 1e-12);
      } else {
        EXPECT_GT(largest, 1e-4);
      }
    }
  }
}

// The losses that the layer adds. Net::Loss is float.
TEST(MoeGradientTest, LossesOfTheGate) {
  MoeCase c{5, 3, 2};
  c.more = "load_balance_loss_weight: 0.5 z_loss_weight: 1";
  const auto net =
      MakeNet("force_backward: true data_type: CAFFE_DOUBLE " + MoeNetText(c), Cpu(), 0);
  FillInputs(net.get());
  CheckGradients(net.get(), 1e-3, 1e-3, [&] { return net->Loss(); });
}

// A uniform loss on the usage pushes every expert, also those that no item selects.
TEST(MoeGradientTest, TheUsageReachesUnselectedExperts) {
  MoeCase c{8, 4, 1};
  c.more = "usage_loss_weight: 1";
  const auto net = MakeNet(MoeNetText(c), Cpu(), 0);
  FillInputs(net.get());
  net->params()[2]->SetData(std::vector<double>(20, 0));
  net->params()[3]->SetData({5, 0, 0, 0});  // the bias of the gate: everything goes to expert 0
  for (BlobBase* blob : net->learnable_params()) {
    blob->SetDiff(std::vector<double>(blob->count(), 0));
  }
  net->Forward();
  EXPECT_EQ(Values(*net, "moe_observed")[0], 1);
  EXPECT_NEAR(net->Loss(), 0.5 * (0.75 * 0.75 + 3 * 0.25 * 0.25), 1e-5);
  net->Backward();
  const std::vector<double> diff = net->params()[3]->DiffAsDouble();
  EXPECT_GT(diff[0], 1e-3);
  for (int e = 1; e < 4; ++e) EXPECT_LT(diff[e], -1e-4) << "expert " << e << " is pushed up";
}

TEST(MoeParametersTest, AreInTheOrderOfFiles) {
  for (const bool full : {false, true}) {
    MoeCase c{2, 3, 2, full};
    c.more = "balance_rate: 0.125";
    const auto net = MakeNet(MoeNetText(c), Cpu(), 0);
    std::vector<Shape> shapes, expected{{5, 72}, {5}, {3, 5}, {3}};
    for (int e = 0; e < 3; ++e) {
      for (const Shape& shape : {Shape{4, 2, 3, 3}, Shape{4}, Shape{7, 16}, Shape{7}}) {
        expected.push_back(shape);
      }
    }
    expected.push_back({3});  // the bias of the selection
    for (const auto& blob : net->LayerByName("moe")->blobs()) shapes.push_back(blob->shape());
    EXPECT_EQ(shapes, expected);
    EXPECT_EQ(net->params_lr().back(), 0);
    EXPECT_EQ(net->params_lr()[0], 1);
  }
}

TEST(MoeParametersTest, TravelBetweenModes) {
  const auto from = MakeNet(MoeNetText({6, 3, 2, false}), Cpu());
  FillInputs(from.get());
  from->Forward();
  NetParameter weights;
  from->ToProto(&weights);
  NetOptions options;
  options.device = Cpu();
  options.phase = 1;
  options.seed = 5;  // other fillers
  Net to(ParseNet(MoeNetText({6, 3, 2, true})), options);
  to.CopyTrainedLayersFrom(weights);
  FillInputs(&to);
  to.Forward();
  ExpectNear(Values(to, "moe"), Values(*from, "moe"), 1e-5, "moe");
}

TEST(MoeParametersTest, ExpertsStartWithDifferentWeights) {
  const auto net = MakeNet(MoeNetText({}), Cpu());
  const auto& blobs = net->LayerByName("moe")->blobs();
  EXPECT_NE(blobs[4]->DataAsDouble(), blobs[8]->DataAsDouble());
}

TEST(MoeNamesTest, NestedLayersHaveTheNameOfTheLayerBeforeThem) {
  const auto names = [](const MoeCase& c) {
    const auto net = MakeNet(MoeNetText(c), Cpu());
    net->Forward();
    return LayersOfSteps(*net);
  };
  const std::string grouped = names({6, 3, 2, false}), full = names({6, 3, 2, true});
  for (const char* name :
       {"moe/gating/ga_ip1 ", "moe/route ", "moe/gather0 ", "moe/expert/conv "}) {
    EXPECT_NE(grouped.find(name), std::string::npos) << name << "in " << grouped;
  }
  for (const char* name : {"moe/expert0/conv ", "moe/expert2/ip "}) {
    EXPECT_NE(full.find(name), std::string::npos) << name << "in " << full;
  }
}

TEST(MoeUsageTest, LinesForEachLayer) {
  const MoeCase c{6, 4, 1};
  const auto net = MakeNet(MoeNetText(c), Cpu());
  FillInputs(net.get());
  EXPECT_TRUE(TakeExpertUsage(*net, "Test").empty());
  net->Forward();
  const std::vector<double> observed = Values(*net, "moe_observed");
  const std::vector<std::string> lines = TakeExpertUsage(*net, "Test");
  ASSERT_EQ(lines.size(), 1u);
  const auto largest = static_cast<float>(*std::max_element(observed.begin(), observed.end()));
  EXPECT_NE(lines[0].find("    Test expert usage of moe: entropy "), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find(Concat("max ", largest, " (even use: 1, 0.25, 0.25)")), std::string::npos)
      << lines[0];
}

TEST(MoeTopsTest, GateBlobsAreTops) {
  MoeCase c;
  c.more = "gate_top: 'ga_softmax'";
  std::string text = MoeNetText(c);
  const std::string tops = "top: 'moe_expected' ";
  text.insert(text.find(tops) + tops.size(), "top: 'gate' ");
  const auto net = MakeNet(text + InputText("label", {6}) +
                               "layer { name: 'super' type: 'MultinomialLogisticLoss'"
                               " bottom: 'gate' bottom: 'label' top: 'super' }",
                           Cpu(), 0);
  FillInputs(net.get());
  net->Forward();
  const std::vector<double> gate = Values(*net, "gate");
  ASSERT_EQ(gate.size(), 18u);
  EXPECT_NEAR(gate[0] + gate[1] + gate[2], 1, 1e-5);
  for (BlobBase* blob : net->learnable_params()) {
    blob->SetDiff(std::vector<double>(blob->count(), 0));
  }
  net->Backward();
  double sum = 0;
  for (const double value : net->learnable_params()[0]->DiffAsDouble()) sum += std::abs(value);
  EXPECT_GT(sum, 0) << "the classes supervise the gate";
}

TEST(MoeTopsTest, UsageTopsMayBeLeftOut) {
  MoeCase c;
  c.tops = 1;
  const auto net = MakeNet(MoeNetText(c), Cpu());
  FillInputs(net.get());
  net->Forward();
  ExpectNear(Values(*net, "moe"), MoeByLoops(c, *net, Cpu()), 1e-5, "moe");
}

TEST(MoeFallbackTest, LayersWithoutAGroupedFormRunInFull) {
  MoeCase c;
  std::string text = MoeNetText(c);
  const std::string relu = ReluText("relu", "conv");
  text.replace(text.find(relu), relu.size(),
               "layer { name: 'prelu' type: 'PReLU' bottom: 'conv' top: 'conv' } ");
  const auto net = MakeNet(text, Cpu());
  FillInputs(net.get());
  net->Forward();
  EXPECT_EQ(net->LayerByName("moe")->blobs().size(), 4 + 3 * 5u);
  EXPECT_EQ(net->BlobByName("moe")->shape(), (Shape{6, 7}));
}

TEST(MoeFallbackTest, LayersOfUsersSayWhetherTheyComputeEachItem) {
  const std::string relu = ReluText("relu", "conv");
  for (const bool per_item : {false, true}) {
    LayerTraits traits;
    if (per_item) traits.per_item = Always(true);
    const std::string type = per_item ? "TestAbsOfItems" : "TestAbs";
    LayerRegistry::Get().AddUntyped(type, traits,
                                    [](LayerParameter parameter, const LayerContext& context) {
                                      parameter.set_type("AbsVal");
                                      return LayerRegistry::Get().Create(parameter, context);
                                    });
    MoeCase c;
    std::string text = MoeNetText(c);
    text.replace(text.find(relu), relu.size(),
                 "layer { name: 'abs' type: '" + type + "' bottom: 'conv' top: 'abs' } ");
    text.replace(text.find("bottom: 'conv' top: 'pool'"), 14, "bottom: 'abs'");
    const auto net = MakeNet(text, Cpu());
    FillInputs(net.get());
    net->Forward();
    const std::string steps = LayersOfSteps(*net);
    EXPECT_EQ(steps.find("moe/expert/conv ") != std::string::npos, per_item) << steps;
    EXPECT_EQ(steps.find("moe/expert2/conv ") != std::string::npos, !per_item) << steps;
  }
}

TEST(MoeFallbackTest, ExpertsMayDiffer) {
  std::string text = InputText("data", {6, 2, 6, 6}) +
                     "layer { name: 'moe' type: 'MOE' bottom: 'data' top: 'moe' moe_param {"
                     " select_experts: 1 gating_net { " +
                     MoeGatingText(2) + " } expert_net { " + MoeExpertText() + " } expert_net { " +
                     InputText("x", {1}) + InnerProductText("ip", "x", 7) + " } } } ";
  const auto net = MakeNet(text, Cpu());
  FillInputs(net.get());
  net->Forward();
  EXPECT_EQ(net->LayerByName("moe")->blobs().size(), 4 + 4 + 2u);
  EXPECT_EQ(net->BlobByName("moe")->shape(), (Shape{6, 7}));
}

TEST(MoeNestingTest, TwoLayersInANet) {
  MoeCase c;
  const auto net = MakeNet(MoeNetText(c) + MoeLayerText(c, "second", "data") +
                               "layer { name: 'sum' type: 'Eltwise' bottom: 'moe' bottom: 'second'"
                               " top: 'sum' }",
                           Cpu());
  FillInputs(net.get());
  net->Forward();
  std::vector<double> expected = Values(*net, "moe");
  const std::vector<double> second = Values(*net, "second");
  EXPECT_NE(expected, second);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += second[i];
  ExpectNear(Values(*net, "sum"), expected, 1e-5, "sum");
  EXPECT_EQ(TakeExpertUsage(*net, "Test").size(), 2u);
}

TEST(MoeNestingTest, AMoeInAMoe) {
  MoeCase inner;
  inner.tops = 1;
  const std::string text =
      InputText("data", {6, 2, 6, 6}) +
      "layer { name: 'outer' type: 'MOE' bottom: 'data' top: 'outer' moe_param { select_experts: 1 "
      "expert_instances: 2 gating_net { " +
      MoeGatingText(2) + " } expert_net { " + InputText("x", {1, 2, 6, 6}) +
      MoeLayerText(inner, "moe", "x") + " } } } " + InputText("target", {6, 7}) +
      "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'outer' bottom: 'target' top: 'loss' } ";
  const auto net = MakeNet("force_backward: true data_type: CAFFE_DOUBLE " + text, Cpu(), 0);
  FillInputs(net.get());
  EXPECT_EQ(net->LayerByName("outer")->blobs().size(), 4 + 2 * 16u);
  net->Forward();
  EXPECT_EQ(TakeExpertUsage(*net, "Test").size(), 3u) << "outer, and one in each of its experts";
  CheckGradients(net.get(), 1e-5, 1e-6, [&] { return Values(*net, "loss")[0]; });
}

// Two steps of an LSTM whose gates are the output of a MOE layer, with the same parameters.
TEST(MoeNestingTest, AMoeInAnLstm) {
  constexpr int kExperts = 3, kSteps = 2;
  std::string shared;
  for (int i = 0; i < 2 + 2 * kExperts; ++i) shared += Concat("param { name: 'p", i, "' } ");
  const auto product = [](const char* name, int outputs) {
    return Concat("layer { name: '", name, "' type: 'InnerProduct' bottom: 'in' top: '", name,
                  "' inner_product_param { num_output: ", outputs,
                  " weight_filler { type: 'gaussian' std: 0.7 } "
                  "bias_filler { type: 'gaussian' std: 0.3 } } } ");
  };
  const auto reshape = [](const std::string& from, const std::string& to, const char* shape) {
    return Concat("layer { name: '", to, "' type: 'Reshape' bottom: '", from, "' top: '", to,
                  "' reshape_param { shape { ", shape, " } } } ");
  };
  std::string text = InputText("data", {4, 3}) + InputText("x2", {4, 3}) + InputText("h0", {4, 2}) +
                     InputText("c0", {1, 4, 2}) + InputText("cont", {1, 4}) +
                     InputText("target", {1, 4, 2});
  for (int step = 1; step <= kSteps; ++step) {
    const std::string t = std::to_string(step), before = std::to_string(step - 1);
    text += "layer { name: 'in" + t + "' type: 'Concat' bottom: '" + (step == 1 ? "data" : "x2") +
            "' bottom: 'h" + before + "' top: 'in" + t + "' } ";
    text += "layer { name: 'moe" + t + "' type: 'MOE' bottom: 'in" + t + "' top: 'moe" + t + "' " +
            shared + "moe_param { select_experts: 2 expert_instances: 3 gating_net { " +
            InputText("in", {1, 5}) + product("score", kExperts) +
            "layer { name: 'gate' type: 'Softmax' bottom: 'score' top: 'gate' } } expert_net { " +
            InputText("in", {1, 5}) + product("out", 8) + "} } } ";
    text += reshape("moe" + t, "gates" + t, "dim: 1 dim: 4 dim: 8");
    text += "layer { name: 'unit" + t + "' type: 'LSTMUnit' bottom: 'c" + before +
            "' bottom: 'gates" + t + "' bottom: 'cont' top: 'c" + t + "' top: 'hidden" + t + "' } ";
    text += reshape("hidden" + t, "h" + t, "dim: 4 dim: 2");
  }
  text +=
      "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'hidden2' bottom: 'target' top: 'loss' }";
  const auto net = MakeNet("force_backward: true data_type: CAFFE_DOUBLE " + text, Cpu(), 0);
  FillInputs(net.get());
  EXPECT_EQ(net->learnable_params().size(), 2 + 2 * kExperts) << "both steps share them";
  net->Forward();
  EXPECT_EQ(TakeExpertUsage(*net, "Test").size(), 2u) << "one in each step";
  CheckGradients(net.get(), 1e-5, 1e-6, [&] { return Values(*net, "loss")[0]; });
}

// Calibrated in float, then in codes: the experts are integer layers under a float gate. Experts
// that compute together have ranges of other names than experts that compute apart.
TEST_P(MoeNetTest, ExpertsInCodes) {
  const auto [device, type] = GetParam();
  if (type != kFloat) return;
  for (const bool observed_full : {false, true}) {
    MoeCase of_real{20, 4, 2, observed_full};
    of_real.normalize = observed_full;
    const auto real = MakeNet(MoeNetText(of_real), Cpu());
    FillInputs(real.get());
    real->set_quantizer_mode(CAFFE_QUANT_OBSERVE);
    real->Forward();
    NetParameter weights;
    real->ToProto(&weights);
    for (const char* codes : {"CAFFE_INT8_QUANTIZED", "CAFFE_INT16_QUANTIZED"}) {
      for (const bool full : {false, true}) {
        MoeCase c{20, 4, 2, full};
        c.normalize = observed_full;
        c.expert_type = Concat("data_type: ", codes);
        const auto net = MakeNet(MoeNetText(c), device);
        net->CopyTrainedLayersFrom(weights);
        FillInputs(net.get());
        net->Forward();
        const bool wide = std::string(codes) == "CAFFE_INT16_QUANTIZED";
        ExpectNear(Values(*net, "moe"), Values(*real, "moe"), wide ? 1e-3 : 0.1,
                   Concat(codes, ", full_forward ", full, " after ", observed_full));
        // On devices, too, one layer computes the rows of all experts.
        const std::string conv = full ? "moe/expert0/conv" : "moe/expert/conv";
        bool integer = false;
        for (const StepInfo& step : net->Steps()) {
          for (const std::string& layer : step.layers) {
            integer = integer || (layer == conv && step.types.compute.is_quantized());
          }
        }
        EXPECT_TRUE(integer) << conv;
      }
    }
  }
}

TEST_P(MoeNetTest, MovesToAnotherDevice) {
  const auto [device, type] = GetParam();
  for (const bool full : {false, true}) {
    MoeCase c{9, 3, 2, full};
    c.expert_type = TypeText(type);
    const auto net = MakeNet("force_backward: true " + MoeNetText(c), Cpu());
    FillInputs(net.get());
    net->Forward();
    const std::vector<double> before = Values(*net, "moe");
    net->SetDevice(device);
    net->Forward();
    ExpectNear(Values(*net, "moe"), before, 8 * std::max(Tolerance(type), Tolerance(kFloat)),
               "moe");
    net->SetDevice(Cpu());
    net->Forward();
    EXPECT_EQ(Values(*net, "moe"), before);
  }
}

TEST(MoeErrorsTest, NameTheLayerAndTheValues) {
  const auto message = [](const MoeCase& c, const std::string& from = "",
                          const std::string& to = "") {
    std::string text = MoeNetText(c);
    if (!from.empty()) text.replace(text.find(from), from.size(), to);
    return MessageOf([&] { MakeNet(text, Cpu()); });
  };
  EXPECT_EQ(message({}), "");
  EXPECT_TRUE(Holds(message({6, 3, 4}), "moe/route (MOERoute)"));
  EXPECT_TRUE(Holds(message({}, "top: 'moe_expected' ", ""), "has 2 tops, but needs 3"));
  EXPECT_TRUE(Holds(message({}, "top: 'x'", "top: 'x' top: 'z'"), "expert_net 0 has 2 inputs"));
  EXPECT_TRUE(
      Holds(message({}, "expert_instances: 3", "experts: 3"), "is that of expert_instances"));
  EXPECT_TRUE(Holds(message({}, "expert_instances: 3", "expert_instances: 4"),
                    "the gate has 3 outputs, but there are 4 experts"));
  EXPECT_TRUE(
      Holds(message({}, "gating_net", "map_bottom: EXPERT gating_net"), "gating_net has 1"));
}

}  // namespace
}  // namespace caffe

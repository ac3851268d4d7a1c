// Losses and accuracies are float in nets of narrow types: a sum may exceed 65,504, and bfloat16
// has three digits.
#include <cmath>

#include "caffe/device/runtime.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/solver/solver.hpp"
#include "net/layer_text.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"
#include "support/layer_samples.hpp"

namespace caffe {
namespace {

using Numbers = std::vector<double>;

class LossTypesTest : public testing::TestWithParam<DeviceType> {
 protected:
  static DataType LossType() { return GetParam().type == kDouble ? kDouble : kFloat; }
  static std::string Typed(DataType type, const std::string& text) { return TypeText(type) + text; }
};

// A layer's net in training: its bottoms are inputs.
std::string SampleText(const std::string& type, const LayerSample& sample) {
  std::string text, layer = "layer { name: 'loss' type: '" + type + "' top: 'loss' ";
  for (size_t b = 0; b < sample.bottoms.size(); ++b) {
    const std::string name = "bottom" + std::to_string(b);
    text += InputText(name, sample.bottoms[b]);
    layer += "bottom: '" + name + "' ";
  }
  for (int t = 1; t < sample.tops; ++t) layer += "top: 'top" + std::to_string(t) + "' ";
  return text + layer + sample.parameters + " } ";
}

TEST_P(LossTypesTest, TopsOfAllLossesAreFloat) {
  const auto [device, type] = GetParam();
  int losses = 0;
  for (const auto& [name, samples] : LayerSamples()) {
    if (!LayerRegistry::Get().Traits(name).loss) continue;
    for (const LayerSample& sample : samples) {
      const std::string text = "force_backward: true " + SampleText(name, sample);
      const auto net = MakeNet(Typed(type, text), device, 0);
      const auto exact = MakeNet(Typed(kDouble, text), device, 0);
      for (Net* each : {net.get(), exact.get()}) {
        FillInputs(each);
        for (const BlobBase* input : exact->input_blobs()) {
          Numbers values = TestNumbers(input->count(), 3);
          for (double& value : values) value = std::round(4 * (std::abs(value) + 0.25)) / 4;
          each->BlobByName(input->name())->SetData(values);
        }
        for (const auto& [index, values] : sample.given) {
          each->BlobByName("bottom" + std::to_string(index))->SetData(values);
        }
        each->Forward();
        each->Backward();
      }
      const BlobBase& loss = *net->BlobByName("loss");
      EXPECT_EQ(loss.type(), LossType()) << name;
      const double expected = Values(*exact, "loss")[0];
      // The bottoms have the same values in every type.
      EXPECT_NEAR(Values(*net, "loss")[0], expected, 1e-4 * (1 + std::abs(expected))) << name;
      for (const char* bottom : {"bottom0"}) {
        const Numbers actual = net->BlobByName(bottom)->DiffAsDouble();
        const Numbers wanted = exact->BlobByName(bottom)->DiffAsDouble();
        for (size_t i = 0; i < wanted.size(); ++i) {
          EXPECT_NEAR(actual[i], wanted[i], 4 * Tolerance(type) * (1 + std::abs(wanted[i])))
              << name << " " << i;
        }
      }
      ++losses;
    }
  }
  EXPECT_GE(losses, 9);
}

// A fully convolutional net that adds up the losses of all pixels.
std::string PixelsText() {
  return InputText("data", {1, 3, 160, 160}) + InputText("label", {1, 1, 160, 160}) +
         PaddedConvText("score", "data", 21) +
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'score' bottom: 'label' top: "
         "'loss' loss_param { normalization: NONE } } "
         "layer { name: 'accuracy' type: 'Accuracy' bottom: 'score' bottom: 'label' top: "
         "'accuracy' } "
         "layer { name: 'squares' type: 'Reduction' bottom: 'score' top: 'squares' loss_weight: "
         "0.5 reduction_param { operation: SUMSQ coeff: 4 } } ";
}

TEST_P(LossTypesTest, LargeSumsAreFinite) {
  const auto [device, type] = GetParam();
  if (type == kDouble) return;
  double expected[2] = {0, 0};
  for (const DataType each : {kFloat, type}) {
    SolverParameter parameter;
    parameter.set_base_lr(1e-7f);
    parameter.set_lr_policy("fixed");
    parameter.set_random_seed(5);
    parameter.set_loss_scale_init(16);
    *parameter.mutable_net_param() = ParseNet(Typed(each, PixelsText()));
    Solver solver(parameter, device);
    FillInputs(solver.net());
    solver.Step(1);
    const double loss = solver.SmoothedLoss();
    for (const char* blob : {"loss", "accuracy", "squares"}) {
      EXPECT_EQ(solver.net()->BlobByName(blob)->type(), kFloat) << blob;
    }
    const double squares = Values(*solver.net(), "squares")[0];
    EXPECT_GT(loss, 70000) << "more than half can represent";
    EXPECT_GT(squares, 70000);
    if (each == kFloat) {
      expected[0] = loss;
      expected[1] = squares;
    }
    EXPECT_NEAR(loss, expected[0], 0.01 * expected[0]);
    EXPECT_NEAR(squares, expected[1], 0.01 * expected[1]);
    EXPECT_EQ(solver.updater().SkippedSteps(), 0) << "the gradients are finite, too";
  }
}

// Types of the user are ignored for a loss, as for an accuracy, unless they are wider.
TEST_P(LossTypesTest, OwnTypesOfALayer) {
  const auto [device, type] = GetParam();
  const std::string inputs = InputText("data", {2, 3}) + InputText("label", {2});
  const auto text = [&](const std::string& types) {
    return inputs + "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'data' bottom: 'label' " +
           "top: 'loss' top: 'p' " + types + " } ";
  };
  const std::string name = type.name();
  const auto narrow = MakeNet(text("top_data_type_name: '" + name + "'"), device);
  EXPECT_EQ(narrow->BlobByName("loss")->type(), LossType());
  EXPECT_EQ(narrow->BlobByName("p")->type(), type);
  const auto mixed =
      MakeNet(text("compute_data_type_name: '" + name + "' top_data_type_name: 'float'"), device);
  EXPECT_EQ(mixed->BlobByName("loss")->type(), kFloat);
  FillInputs(mixed.get());
  mixed->Forward();
  EXPECT_GT(Values(*mixed, "loss")[0], 0);
}

INSTANTIATE_TEST_SUITE_P(All, LossTypesTest, testing::ValuesIn(DevicesAndFloats()),
                         [](const auto& info) { return TestName(info.param); });

TEST(LossTypesOfUsersTest, LossesAreFloat) {
  NetParameter parameter =
      ParseNet(InputText("data", {600, 3}) + InputText("goal", {600, 3}) +
               "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'data' bottom: 'goal' top: "
               "'loss' loss_param { normalization: PRE_FIXED pre_fixed_normalizer: 1 } } ");
  parameter.set_data_type_name("fp8_e4m3");
  NetOptions options;
  options.device = Runtime::Get().cpu();
  options.phase = TEST;
  Net net(parameter, options);
  net.BlobByName("data")->SetData(Numbers(1800, 2));
  net.BlobByName("goal")->SetData(Numbers(1800, 1));
  net.Forward();
  EXPECT_EQ(net.BlobByName("loss")->type(), kFloat);
  EXPECT_EQ(Values(net, "loss")[0], 900) << "448 is the largest number of the type";
}

}  // namespace
}  // namespace caffe

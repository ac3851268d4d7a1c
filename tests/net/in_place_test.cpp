// Nets in which layers work in place: values and gradients are those of the net in which every
// layer has a top of its own, and blobs look as if there were one memory for each name.
#include <gtest/gtest.h>

#include <cmath>

#include "caffe/device/runtime.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

using Numbers = std::vector<double>;

constexpr int kTrain = 0;

Device* Cpu() { return Runtime::Get().cpu(); }

std::string LayerText(const std::string& name, const std::string& type, const std::string& bottom,
                      const std::string& top, const std::string& more = "") {
  return "layer { name: '" + name + "' type: '" + type + "' bottom: '" + bottom + "' top: '" + top +
         "' " + more + " } ";
}

// Parameters with which a layer is smooth and far from the borders of its domain.
std::string ParametersOf(const std::string& type) {
  if (type == "Exp") return "exp_param { scale: 0.3 }";
  if (type == "Log") return "log_param { shift: 9 scale: 0.5 }";
  if (type == "Power") return "power_param { power: 2 scale: 0.25 shift: 1 }";
  if (type == "ReLU, slope < 0") return "relu_param { negative_slope: -0.5 }";
  if (type == "ELU, alpha < 0") return "elu_param { alpha: -0.5 }";
  if (type == "ELU") return "elu_param { alpha: 0.5 }";
  if (type == "Scale") {
    return "scale_param { bias_term: true filler { type: 'uniform' min: 0.5 max: 1.5 } "
           "bias_filler { type: 'uniform' min: -0.5 max: 0.5 } }";
  }
  if (type == "Clip") return "clip_param { min: -0.6 max: 0.6 }";
  // Behind a ReLU all values of a channel may be 0, where another ReLU has no derivative.
  if (type == "BN") return "bn_param { bias_filler { type: 'uniform' min: 0.1 max: 0.5 } }";
  if (type == "Bias") return "bias_param { filler { type: 'uniform' min: -0.5 max: 0.5 } }";
  return "";
}

std::vector<std::string> InPlaceTypes() {
  std::vector<std::string> types;
  for (const std::string& type : LayerRegistry::Get().Names()) {
    const LayerTraits& traits = LayerRegistry::Get().Traits(type);
    if (traits.in_place && traits.backward && type != "Python") types.push_back(type);
  }
  return types;
}

// "ReLU" of "ReLU, slope < 0".
std::string TypeOf(const std::string& variant) { return variant.substr(0, variant.find(',')); }

// ip, the layers of these types on its top, and a loss. `apart` layers have tops of their own, and
// those behind work in place on the last of these.
std::string Chain(const std::vector<std::string>& types, size_t apart = 0) {
  std::string text = "data_type: CAFFE_DOUBLE force_backward: true " + InputText("data", {4, 3}) +
                     InputText("target", {4, 3}) + InnerProductText("ip", "data", 3);
  std::string blob = "ip";
  for (size_t i = 0; i < types.size(); ++i) {
    const std::string name = "layer" + std::to_string(i), top = i < apart ? name : blob;
    text += LayerText(name, TypeOf(types[i]), blob, top, ParametersOf(types[i]));
    blob = top;
  }
  return text + "layer { name: 'loss' type: 'EuclideanLoss' bottom: '" + blob +
         "' bottom: 'target' top: 'loss' } ";
}

std::string Title(const std::vector<std::string>& types, size_t apart) {
  std::string title;
  for (const std::string& type : types) title += (title.empty() ? "" : " -> ") + type;
  return title + (apart > 0 ? ", the first apart" : "");
}

// Compares the derivative of the loss in one direction of the input and all parameters with the
// quotient of differences.
testing::AssertionResult GradientIsRight(Net* net) {
  NetRunState state;
  net->WriteRunState(&state);
  struct Variable {
    BlobBase* blob;
    Numbers values, direction, gradient;
  };
  FillInputs(net, 3);
  std::vector<Variable> variables;
  variables.push_back({net->BlobByName("data").get(), {}, {}, {}});
  for (BlobBase* blob : net->learnable_params()) variables.push_back({blob, {}, {}, {}});
  uint64_t seed = 40;
  for (Variable& v : variables) {
    v.values = v.blob->DataAsDouble();
    v.direction = TestNumbers(v.blob->count(), ++seed);
  }
  const auto loss = [&](double step) {
    for (Variable& v : variables) {
      Numbers moved = v.values;
      for (size_t i = 0; i < moved.size(); ++i) moved[i] += step * v.direction[i];
      v.blob->SetData(moved);
    }
    net->ReadRunState(state);
    net->Forward();
    return net->BlobByName("loss")->DataAsDouble()[0];
  };
  // The loss has no derivative by BatchNorm's statistics.
  loss(0);
  net->ClearParamDiffs();
  net->Backward();
  double expected = 0, size = 1;
  for (Variable& v : variables) {
    const Numbers gradient = v.blob->DiffAsDouble();
    for (size_t i = 0; i < gradient.size(); ++i) expected += gradient[i] * v.direction[i];
  }
  const double step = 1e-5, actual = (loss(step) - loss(-step)) / (2 * step);
  size = std::max(size, std::abs(actual));
  if (std::abs(expected - actual) <= 1e-5 * size) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << "derivative " << expected << ", differences give " << actual;
}

TEST(InPlaceGradientTest, AllPairs) {
  std::vector<std::string> types = InPlaceTypes();
  ASSERT_GE(types.size(), 13u);
  types.insert(types.end(), {"ReLU, slope < 0", "ELU, alpha < 0"});
  for (const std::string& a : types) {
    for (const std::string& b : types) {
      for (size_t apart : {0, 1}) {
        const auto net = MakeNet(Chain({a, b}, apart), Cpu(), kTrain);
        EXPECT_TRUE(GradientIsRight(net.get())) << Title({a, b}, apart);
      }
    }
  }
}

TEST(InPlaceGradientTest, AllTriples) {
  const std::vector<std::string> types = InPlaceTypes();
  for (const std::string& a : types) {
    for (const std::string& b : types) {
      for (const std::string& c : types) {
        const auto net = MakeNet(Chain({a, b, c}), Cpu(), kTrain);
        EXPECT_TRUE(GradientIsRight(net.get())) << Title({a, b, c}, 0);
      }
    }
  }
}

TEST(InPlaceGradientTest, TheSecondTopOfALoss) {
  const auto net =
      MakeNet("data_type: CAFFE_DOUBLE force_backward: true " + InputText("data", {4, 3}) +
                  InputText("label", {4}) +
                  "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'data' bottom: 'label' "
                  "top: 'loss' top: 'prob' } " +
                  LayerText("log", "Log", "prob", "prob"),
              Cpu(), kTrain);
  EXPECT_EQ(net->blob_names(), (std::vector<std::string>{"data", "label", "loss", "prob"}));
  net->BlobByName("data")->SetData(TestNumbers(12, 1));
  net->BlobByName("label")->SetData({0, 1, 2, 1});
  net->Forward();
  net->Backward();
  const Numbers log = Values(*net, "prob"), gradient = net->BlobByName("data")->DiffAsDouble();
  const int labels[] = {0, 1, 2, 1};
  for (int i = 0; i < 12; ++i) {
    const double expected = (std::exp(log[i]) - (labels[i / 3] == i % 3)) / 4;
    EXPECT_NEAR(gradient[i], expected, 1e-12);
  }
}

// A net in phase TEST keeps no memory for gradients: an error instead of wrong gradients.
TEST(InPlaceGradientTest, WithoutTheMemoryThereIsAnError) {
  const auto text = [](const std::string& head) {
    std::string chain = Chain({"Sigmoid", "Exp"});
    chain.replace(chain.find("force_backward: true"), 20, head);
    return chain;
  };
  const auto test = MakeNet(text("reduced_memory_inference: false"), Cpu());
  FillInputs(test.get());
  test->Forward();
  const std::string message = MessageOf([&] { test->Backward(); });
  for (const char* part :
       {"layer1 (Exp)", "layer 'layer0' reads blob ip", "force_backward: true"}) {
    EXPECT_TRUE(Holds(message, part)) << message;
  }
  const auto forced = MakeNet(text("force_backward: true"), Cpu());
  EXPECT_TRUE(GradientIsRight(forced.get()));
  EXPECT_LT(test->memory_needs().data, forced->memory_needs().data);
}

class InPlaceTest : public testing::TestWithParam<DeviceType> {
 protected:
  std::string Typed(const std::string& text) const {
    return "data_type: " +
           DataTypeProto_Name(static_cast<DataTypeProto>(GetParam().type.info().proto)) + " " +
           text;
  }
  std::unique_ptr<Net> Make(const std::string& text, int phase = 1) const {
    auto net = MakeNet(Typed(text), GetParam().device, phase);
    FillInputs(net.get());
    return net;
  }
};

// Layers that share their bottom's memory, and what works in place behind them.
TEST_P(InPlaceTest, WhatIsReadLaterIsNotChanged) {
  struct Case {
    std::string view, top;
  };
  const std::string reshape = "reshape_param { shape { dim: 0 dim: -1 } }";
  for (const Case& c : {Case{LayerText("v", "Flatten", "ip", "view"), "view"},
                        Case{LayerText("v", "Reshape", "ip", "view", reshape), "view"},
                        Case{LayerText("v", "Concat", "ip", "view"), "view"},
                        Case{LayerText("v", "Slice", "ip", "view"), "view"},
                        Case{LayerText("v", "Split", "ip", "view' top: 'second"), "second"}}) {
    const auto text = [&](const std::string& top) {
      return InputText("data", {2, 5}) + InnerProductText("ip", "data", 6) + c.view +
             LayerText("relu", "ReLU", c.top, top) +
             LayerText("late", "Power", "ip", "late", "power_param { scale: 2 }");
    };
    const auto net = Make(text(c.top)), apart = Make(text("own"));
    for (Net* each : {net.get(), apart.get()}) each->Forward();
    EXPECT_EQ(Values(*net, "late"), Values(*apart, "late")) << c.view;
    EXPECT_EQ(Values(*net, "ip"), Values(*apart, "ip")) << c.view;
    EXPECT_EQ(Values(*net, c.top), Values(*apart, "own")) << c.view;
    const Numbers ip = Values(*net, "ip");
    EXPECT_LT(*std::min_element(ip.begin(), ip.end()), 0);
  }
}

TEST_P(InPlaceTest, EachReaderGetsTheVersionOfItsTime) {
  const auto net = Make(InputText("data", {2, 5}) + InnerProductText("ip", "data", 6) +
                        LayerText("before", "Power", "ip", "before") + ReluText("relu", "ip") +
                        LayerText("after", "Power", "ip", "after"));
  net->Forward();
  Numbers before = Values(*net, "before");
  EXPECT_LT(*std::min_element(before.begin(), before.end()), 0);
  for (double& value : before) value = std::max(value, 0.0);
  EXPECT_EQ(Values(*net, "after"), before);
  EXPECT_EQ(Values(*net, "ip"), before);
}

// Sigmoid needs its top, which Power and Exp would overwrite. For all that users see there is one
// blob.
const char* const kChain =
    "layer { name: 'first' type: 'Sigmoid' bottom: 'ip' top: 'ip' } "
    "layer { name: 'second' type: 'Power' bottom: 'ip' top: 'ip' power_param { scale: 4 shift: -1 "
    "} } "
    "layer { name: 'third' type: 'Sigmoid' bottom: 'ip' top: 'ip' } "
    "layer { name: 'fourth' type: 'Power' bottom: 'ip' top: 'ip' power_param { scale: 2 } } "
    "layer { name: 'out' type: 'InnerProduct' bottom: 'ip' top: 'out' inner_product_param { "
    "num_output: 2 weight_filler { type: 'uniform' min: -1 max: 1 } } } ";

std::string ChainText() {
  return InputText("data", {2, 5}) + InnerProductText("ip", "data", 6) + kChain;
}

TEST_P(InPlaceTest, ListsAreAsTheUserWroteThem) {
  const auto net = Make(ChainText(), kTrain);
  EXPECT_EQ(net->blob_names(), (std::vector<std::string>{"data", "ip", "out"}));
  EXPECT_EQ(net->layer_names(),
            (std::vector<std::string>{"data", "ip", "first", "second", "third", "fourth", "out"}));
  for (int layer : {2, 3, 4, 5}) {
    EXPECT_EQ(net->bottom_ids(layer), std::vector<int>{1});
    EXPECT_EQ(net->top_ids(layer), std::vector<int>{1});
  }
  EXPECT_EQ(net->output_blob_indices(), std::vector<int>{2});
  NetParameter saved;
  net->ToProto(&saved);
  ASSERT_EQ(saved.layer_size(), 7);
  EXPECT_EQ(saved.layer(2).top(0), "ip");
  EXPECT_EQ(saved.layer(6).bottom(0), "ip");
}

TEST_P(InPlaceTest, RangesBelongToVersions) {
  const auto net = Make(ChainText(), kTrain);
  net->set_observe(true);
  net->Forward();
  std::vector<std::string> names;
  for (const auto& [name, range] : net->Ranges()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"data", "ip", "ip@first", "ip@ip", "ip@second",
                                             "ip@third", "out"}));
}

// TEST nets keep these layers in place: each part of a pass must look the same in both.
TEST_P(InPlaceTest, PartsOfAForwardLookAsIfAllWorkedInPlace) {
  const auto apart = Make(ChainText(), kTrain), in_place = Make(ChainText());
  ASSERT_GT(apart->memory_needs().data, in_place->memory_needs().data);
  const double tolerance = 2 * Tolerance(GetParam().type);
  for (Net* net : {apart.get(), in_place.get()}) net->Forward();
  ExpectNear(Values(*apart, "out"), Values(*in_place, "out"), tolerance, "whole");
  for (int end = 1; end < 6; ++end) {
    for (Net* net : {apart.get(), in_place.get()}) net->Forward(0, end);
    ExpectNear(Values(*apart, "ip"), Values(*in_place, "ip"), tolerance,
               "to " + std::to_string(end));
    for (Net* net : {apart.get(), in_place.get()}) net->Forward(end + 1, 6);
    ExpectNear(Values(*apart, "out"), Values(*in_place, "out"), tolerance, "and the rest");
  }
  for (int start = 2; start < 6; ++start) {
    for (Net* net : {apart.get(), in_place.get()}) {
      net->BlobByName("ip")->SetData(TestNumbers(12, 5));
      net->Forward(start, 6);
    }
    ExpectNear(Values(*apart, "out"), Values(*in_place, "out"), tolerance,
               "from " + std::to_string(start));
  }
}

TEST_P(InPlaceTest, CallbacksSeeAndChangeTheVersionOfTheirLayer) {
  const auto apart = Make(ChainText(), kTrain), in_place = Make(ChainText());
  std::vector<Numbers> seen[2];
  int which = 0;
  for (Net* net : {apart.get(), in_place.get()}) {
    std::vector<Numbers>& all = seen[which++];
    net->set_before_forward([net, &all](int layer) {
      if (layer >= 2) all.push_back(Values(*net, "ip"));
      if (layer == 3) net->BlobByName("ip")->SetData(TestNumbers(12, 9));
    });
    net->set_after_forward([net, &all](int layer) {
      if (layer >= 1) all.push_back(Values(*net, "ip"));
      if (layer == 4) net->BlobByName("ip")->SetData(TestNumbers(12, 8));
    });
    net->Forward();
  }
  ASSERT_EQ(seen[0].size(), 11u);
  const double tolerance = 2 * Tolerance(GetParam().type);
  for (size_t i = 0; i < seen[0].size(); ++i) {
    ExpectNear(seen[0][i], seen[1][i], tolerance, "call " + std::to_string(i));
  }
  ExpectNear(Values(*apart, "out"), Values(*in_place, "out"), tolerance, "out");
}

// A part of a backward begins with the diff of the user's blob and ends with it.
TEST_P(InPlaceTest, PartsOfABackwardUseTheDiffOfTheBlob) {
  const double tolerance = 4 * Tolerance(GetParam().type);
  const auto net = Make(ChainText(), kTrain);
  const auto apart =
      Make("force_backward: true " + InputText("data", {2, 5}) + InnerProductText("ip", "data", 6) +
               LayerText("first", "Sigmoid", "ip", "a") +
               LayerText("second", "Power", "a", "b", "power_param { scale: 4 shift: -1 }") +
               LayerText("third", "Sigmoid", "b", "c") +
               LayerText("fourth", "Power", "c", "d", "power_param { scale: 2 }") +
               InnerProductText("out", "d", 2),
           kTrain);
  net->RequestGradients({"data"});
  for (Net* each : {net.get(), apart.get()}) each->Forward();
  const std::vector<std::string> tops{"ip", "a", "b", "c", "d"};
  for (int start = 1; start <= 5; ++start) {
    for (int end = 1; end <= start; ++end) {
      const Numbers diff = TestNumbers(12, 50 + start);
      net->BlobByName("ip")->SetDiff(diff);
      apart->BlobByName(tops[start - 1])->SetDiff(diff);
      for (Net* each : {net.get(), apart.get()}) each->Backward(start, end);
      const std::string own = end == 1 ? "data" : "ip";
      const std::string other = end == 1 ? "data" : tops[end - 2];
      ExpectNear(net->BlobByName(own)->DiffAsDouble(), apart->BlobByName(other)->DiffAsDouble(),
                 tolerance, Concat("from ", start, " to ", end));
    }
  }
}

TEST_P(InPlaceTest, GrownInputsAndOtherDevicesChangeNothing) {
  const auto net = Make(ChainText(), kTrain);
  net->RequestGradients({"data"});
  net->Forward();
  net->BlobByName("data")->Reshape({7, 5});
  net->Reshape();
  const auto fresh = MakeNet(
      Typed(InputText("data", {7, 5}) + InnerProductText("ip", "data", 6) + kChain), Cpu(), kTrain);
  fresh->RequestGradients({"data"});
  net->SetDevice(Cpu());
  for (Net* each : {net.get(), fresh.get()}) {
    FillInputs(each);
    each->Forward();
    each->BlobByName("out")->SetDiff(TestNumbers(14, 2));
    each->Backward();
  }
  const double tolerance = 4 * Tolerance(GetParam().type);
  ExpectNear(Values(*net, "out"), Values(*fresh, "out"), tolerance, "out");
  ExpectNear(net->BlobByName("data")->DiffAsDouble(), fresh->BlobByName("data")->DiffAsDouble(),
             tolerance, "gradient");
}

TEST_P(InPlaceTest, MemoryNeedsCountsSharedDiffsOnce) {
  // Sigmoid's two tops are kept.
  const auto all = Make("force_backward: true " + ChainText());
  const auto fused = Make("reduced_memory_inference: false " + ChainText());
  EXPECT_EQ(all->memory_needs().data - fused->memory_needs().data,
            2 * all->BlobByName("ip")->bytes());
  const auto net = Make(ChainText(), kTrain);
  const MemoryNeeds before = net->memory_needs();
  net->Forward();
  net->Backward();
  const MemoryNeeds after = net->memory_needs();
  EXPECT_EQ(before.data, after.data);
  EXPECT_EQ(before.diffs, after.diffs);
}

INSTANTIATE_TEST_SUITE_P(All, InPlaceTest, testing::ValuesIn(DevicesAndFloatsOfNets()),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

// Gradients that a caller asks for: at inputs and other blobs, in every phase, before and after a
// forward, without force_backward.
#include <gtest/gtest.h>

#include <cmath>

#include "caffe/device/runtime.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

using Numbers = std::vector<double>;

constexpr int kTrain = 0, kTest = 1;

Device* Cpu() { return Runtime::Get().cpu(); }

std::string LayerText(const std::string& name, const std::string& type, const std::string& bottom,
                      const std::string& top, const std::string& more = "") {
  return "layer { name: '" + name + "' type: '" + type + "' bottom: '" + bottom + "' top: '" + top +
         "' " + more + " } ";
}

std::string InPlaceText(const std::string& name, const std::string& type, const std::string& blob,
                        const std::string& more = "") {
  return LayerText(name, type, blob, blob, more);
}

// Layers that work in place and need their bottoms; a dropout; no loss.
std::string DeployText() {
  return InputText("data", {4, 5}) + InnerProductText("ip1", "data", 6) +
         InPlaceText("bn", "BatchNorm", "ip1") +
         InPlaceText(
             "scale", "Scale", "ip1",
             "scale_param { bias_term: true filler { type: 'uniform' min: 0.5 max: 1.5 } }") +
         InPlaceText("prelu", "PReLU", "ip1") + InnerProductText("ip2", "ip1", 3) +
         InPlaceText("relu", "ReLU", "ip2") + InPlaceText("drop", "Dropout", "ip2") +
         LayerText("prob", "Softmax", "ip2", "prob");
}

class RequestedGradientsTest : public testing::TestWithParam<DeviceType> {
 protected:
  std::unique_ptr<Net> Make(const std::string& text, int phase) const {
    const std::string type =
        DataTypeProto_Name(static_cast<DataTypeProto>(GetParam().type.info().proto));
    auto net = MakeNet("data_type: " + type + " " + text, GetParam().device, phase);
    for (const auto& blob : net->layers()[0]->type() == "Input"
                                ? std::vector<BlobBase*>{net->BlobByName("data").get()}
                                : std::vector<BlobBase*>{}) {
      blob->SetData(TestNumbers(blob->count(), 3));
    }
    // Statistics that are not those of a fresh BatchNorm.
    for (const auto& layer : net->layers()) {
      if (layer->type() != "BatchNorm") continue;
      layer->blobs()[0]->SetData(TestNumbers(layer->blobs()[0]->count(), 5));
      layer->blobs()[1]->SetData(Numbers(layer->blobs()[1]->count(), 2));
      layer->blobs()[2]->SetData({2});
    }
    return net;
  }
  static Numbers Gradient(Net* net, const std::string& seed, const std::string& blob) {
    BlobBase& output = *net->BlobByName(seed);
    output.SetDiff(TestNumbers(output.count(), 8));
    net->Backward();
    return net->BlobByName(blob)->DiffAsDouble();
  }
  static double Largest(const Numbers& values) {
    double largest = 0;
    for (double value : values) largest = std::max(largest, std::abs(value));
    return largest;
  }
};

// The layers that keep too little compute once more: same masks, same statistics.
TEST_P(RequestedGradientsTest, AfterAForwardTheyAreThoseOfForceBackward) {
  for (int phase : {kTest, kTrain}) {
    const auto net = Make(DeployText(), phase);
    const auto forced = Make("force_backward: true " + DeployText(), phase);
    for (Net* each : {net.get(), forced.get()}) each->Forward();
    net->RequestGradients({"data"});
    const Numbers actual = Gradient(net.get(), "prob", "data");
    const Numbers expected = Gradient(forced.get(), "prob", "data");
    // In phase TEST the forward has folded a BatchNorm into weights, which rounds otherwise.
    const double tolerance = phase == kTest ? 4 * Tolerance(GetParam().type) : 0;
    ExpectNear(actual, expected, tolerance, "gradient");
    EXPECT_GT(Largest(actual), 0) << phase;
    ExpectNear(Values(*net, "ip1"), Values(*forced, "ip1"), tolerance, "ip1");
    ExpectNear(Values(*net, "prob"), Values(*forced, "prob"), tolerance, "prob");
    for (size_t p = 0; p < net->params().size(); ++p) {
      EXPECT_EQ(net->params()[p]->DataAsDouble(), forced->params()[p]->DataAsDouble()) << p;
    }
    NetRunState a, b;
    net->WriteRunState(&a);
    forced->WriteRunState(&b);
    EXPECT_EQ(a.SerializeAsString(), b.SerializeAsString()) << "no mask was drawn twice";
    // And in every later pass.
    for (Net* each : {net.get(), forced.get()}) each->Forward();
    EXPECT_EQ(Gradient(net.get(), "prob", "data"), Gradient(forced.get(), "prob", "data"));
  }
}

TEST_P(RequestedGradientsTest, BeforeAForwardNothingRunsTwice) {
  const auto net = Make(DeployText(), kTest);
  const auto forced = Make("force_backward: true " + DeployText(), kTest);
  net->RequestGradients({"data"});
  for (Net* each : {net.get(), forced.get()}) each->Forward();
  EXPECT_EQ(Gradient(net.get(), "prob", "data"), Gradient(forced.get(), "prob", "data"));
}

TEST_P(RequestedGradientsTest, OfABlobInTheMiddle) {
  const auto net = Make(DeployText(), kTest);
  const auto forced = Make("force_backward: true " + DeployText(), kTest);
  for (Net* each : {net.get(), forced.get()}) each->Forward();
  net->RequestGradients({"ip2"});
  ExpectNear(Gradient(net.get(), "prob", "ip2"), Gradient(forced.get(), "prob", "ip2"),
             4 * Tolerance(GetParam().type), "gradient");
  EXPECT_EQ(Largest(net->BlobByName("data")->DiffAsDouble()), 0) << "which was not asked for";
}

TEST_P(RequestedGradientsTest, DataStayWhatTheyWere) {
  const std::string text =
      "layer { name: 'data' type: 'DummyData' top: 'data' dummy_data_param { "
      "shape { dim: 4 dim: 5 } data_filler { type: 'uniform' min: -1 max: 1 } } } " +
      DeployText().substr(InputText("data", {4, 5}).size());
  const auto net = Make(text, kTest);
  net->Forward();
  const Numbers data = Values(*net, "data");
  net->RequestGradients({"data"});
  Gradient(net.get(), "prob", "data");
  EXPECT_EQ(Values(*net, "data"), data);
  net->Forward();
  EXPECT_NE(Values(*net, "data"), data);
}

// A blob whose source was changed in place cannot be computed again: an error, until a forward.
TEST_P(RequestedGradientsTest, AChangedSourceNeedsAForward) {
  const std::string text =
      "layer { name: 'data' type: 'DummyData' top: 'data' dummy_data_param { shape { dim: 4 dim: 5 "
      "} "
      "data_filler { type: 'uniform' min: -1 } } } " +
      InPlaceText("prelu", "PReLU", "data") + InnerProductText("ip", "data", 3);
  const auto net = Make(text, kTest);
  net->Forward();
  const std::string message = MessageOf([&] { net->RequestGradients({"data"}); });
  for (const char* part : {"blob 'data'", "layer 'data'", "run forward once more"}) {
    EXPECT_TRUE(Holds(message, part)) << message;
  }
}

// Inputs stay as the caller wrote them.
TEST_P(RequestedGradientsTest, AnInputThatIsChangedInPlaceNeedsNoForward) {
  const std::string text = InputText("data", {4, 5}) + InPlaceText("prelu", "PReLU", "data") +
                           InnerProductText("ip", "data", 3);
  const auto net = Make(text, kTest);
  const auto forced = Make("force_backward: true " + text, kTest);
  for (Net* each : {net.get(), forced.get()}) {
    each->BlobByName("data")->SetData(TestNumbers(20, 3));
    each->Forward();
  }
  net->RequestGradients({"data"});
  EXPECT_EQ(Gradient(net.get(), "ip", "data"), Gradient(forced.get(), "ip", "data"));
}

// Gradients that were not asked for cost nothing.
TEST_P(RequestedGradientsTest, TrainingLaunchesNothingMore) {
  const std::string text = InputText("data", {4, 5}) + InputText("label", {4}) +
                           InnerProductText("ip1", "data", 6, "propagate_down: false") +
                           ReluText("relu", "ip1") + InnerProductText("ip2", "ip1", 3) +
                           "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' "
                           "bottom: 'label' top: 'loss' } ";
  std::string open = text;
  open.replace(open.find("propagate_down: false"), 21, "");
  const auto launches = [&](const std::string& net_text, bool ask) {
    const auto net = Make(net_text, kTrain);
    if (ask) net->RequestGradients({"data"});
    net->Forward();
    net->Backward();
    GetParam().device->ResetCounters();
    net->Forward();
    net->Backward();
    const DeviceCounters counters = GetParam().device->counters();
    return counters.launches + counters.library_calls;
  };
  EXPECT_EQ(launches(open, false), launches(text, false));
  EXPECT_GT(launches(open, true), launches(open, false));
}

INSTANTIATE_TEST_SUITE_P(All, RequestedGradientsTest, testing::ValuesIn(DevicesAndFloatsOfNets()),
                         [](const auto& info) { return TestName(info.param); });

TEST(RequestedGradientsDoubleTest, AgreeWithDifferences) {
  for (int phase : {kTest, kTrain}) {
    const auto net = MakeNet("data_type: CAFFE_DOUBLE " + DeployText(), Cpu(), phase);
    NetRunState state;
    net->WriteRunState(&state);
    const Numbers x = TestNumbers(20, 3), weights = TestNumbers(12, 8);
    const auto value = [&](const Numbers& data) {
      net->ReadRunState(state);
      net->BlobByName("data")->SetData(data);
      net->Forward();
      const Numbers y = Values(*net, "prob");
      double sum = 0;
      for (size_t i = 0; i < y.size(); ++i) sum += y[i] * weights[i];
      return sum;
    };
    value(x);
    net->RequestGradients({"data"});
    net->BlobByName("prob")->SetDiff(weights);
    net->Backward();
    const Numbers gradient = net->BlobByName("data")->DiffAsDouble();
    for (size_t i = 0; i < x.size(); ++i) {
      Numbers above = x, below = x;
      above[i] += 1e-5;
      below[i] -= 1e-5;
      EXPECT_NEAR(gradient[i], (value(above) - value(below)) / 2e-5, 1e-7) << i;
    }
  }
}

std::string WhyNone(const std::string& text, const std::string& blob, int phase = kTest) {
  const auto net = MakeNet(text, Cpu(), phase);
  return MessageOf([&] { net->RequestGradients({blob}); });
}

TEST(RequestedGradientsErrorTest, SayWhyThereIsNone) {
  const std::string data = InputText("data", {4, 5});
  const std::string loss =
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' } ";
  const std::string labels =
      WhyNone(data + InputText("label", {4}) + InnerProductText("ip", "data", 3) + loss, "label");
  for (const char* part : {"blob 'label'", "layer 'loss' (SoftmaxWithLoss)", "labels"}) {
    EXPECT_TRUE(Holds(labels, part)) << labels;
  }
  const std::string stopped =
      WhyNone(data + InputText("label", {4}) +
                  InnerProductText("ip", "data", 3, "propagate_down: false") + loss,
              "data");
  for (const char* part : {"blob 'data'", "layer 'ip' (InnerProduct)", "propagate_down: false"}) {
    EXPECT_TRUE(Holds(stopped, part)) << stopped;
  }
  const std::string none = WhyNone(
      data + InnerProductText("ip", "data", 3) + LayerText("best", "ArgMax", "ip", "best"), "data");
  EXPECT_TRUE(Holds(none, "layer 'best' (ArgMax) has no backward pass")) << none;
  const std::string codes = WhyNone(
      "data_type: CAFFE_INT8_QUANTIZED " + data + InnerProductText("ip", "data", 3), "data");
  for (const char* part : {"blob 'data'", "is quantized"}) EXPECT_TRUE(Holds(codes, part));
  EXPECT_TRUE(Holds(WhyNone(data, "date"), "no blob 'date'"));
}

// A layer that had fused the ReLU after it no longer does: ranges are those of its own top.
TEST(RequestedGradientsPlanTest, NothingStaysFused) {
  const std::string text =
      InputText("data", {4, 5}) + InnerProductText("ip", "data", 6) + ReluText("relu", "ip");
  const auto net = MakeNet(text, Cpu());
  FillInputs(net.get());
  net->Forward();
  net->RequestGradients({"data"});
  net->set_observe(true);
  net->Forward();
  EXPECT_LT(net->Ranges().at("ip@ip").low, 0);
}

TEST(RequestedGradientsErrorTest, APathIsEnough) {
  const std::string text = InputText("data", {4, 5}) + InputText("label", {4}) +
                           InnerProductText("ip", "data", 3) +
                           "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' "
                           "bottom: 'label' top: 'loss' } "
                           "layer { name: 'hits' type: 'Accuracy' bottom: 'ip' bottom: 'label' "
                           "top: 'hits' } ";
  EXPECT_EQ(WhyNone(text, "data"), "");
  EXPECT_EQ(WhyNone(text, "ip"), "");
  const auto net = MakeNet(text, Cpu());
  EXPECT_EQ(net->RequestGradientsWhereKnown({"data", "label"}), std::vector<std::string>{"data"});
  // Parameters have gradients even if no input has one.
  const auto labels = MakeNet(text, Cpu());
  EXPECT_TRUE(labels->RequestGradientsWhereKnown({"label"}).empty());
  const std::string message = MessageOf([] {
    MakeNet(InputText("data", {4, 5}) + LayerText("best", "ArgMax", "data", "best"), Cpu())
        ->RequestGradientsWhereKnown({"data"});
  });
  EXPECT_TRUE(Holds(message, "layer 'best' (ArgMax) has no backward pass")) << message;
}

}  // namespace
}  // namespace caffe

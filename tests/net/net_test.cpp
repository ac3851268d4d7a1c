#include "caffe/net/net.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "caffe/device/runtime.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/library/native/row_steps.hpp"
#include "caffe/net/plan.hpp"
#include "io/temporary_folder.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

using Names = std::vector<std::string>;

Device* Cpu() { return Runtime::Get().cpu(); }

// data is read twice, and one branch computes in half: a split and three casts.
std::string Branches() {
  return InputText("data", {2, 3}) + InnerProductText("right", "data", 4) +
         InnerProductText("left", "data", 5,
                          "compute_data_type: CAFFE_HALF top_data_type: "
                          "CAFFE_FLOAT") +
         ReluText("relu", "right");
}

TEST(NetTest, PublicListsHideSplitsAndCasts) {
  const auto net = MakeNet(Branches(), Cpu());
  EXPECT_EQ(net->layer_names(), Names({"data", "right", "left", "relu"}));
  EXPECT_EQ(net->blob_names(), Names({"data", "right", "left"}));
  ASSERT_EQ(net->layers().size(), 4u);
  EXPECT_EQ(net->layers()[2]->types(), (TypeTriple{kHalf, kHalf, kFloat}));
  EXPECT_EQ(net->BlobByName("left")->type(), kFloat);
  EXPECT_EQ(net->bottom_ids(1), std::vector<int>({0}));
  EXPECT_EQ(net->bottom_ids(2), std::vector<int>({0}));
  EXPECT_EQ(net->top_ids(2), std::vector<int>({2}));
  EXPECT_EQ(net->bottom_ids(3), net->top_ids(3));
  EXPECT_TRUE(net->has_layer("left"));
  EXPECT_FALSE(net->has_layer("data_data_0_split"));
  EXPECT_FALSE(net->has_blob("data_as_half"));
  EXPECT_THROW(net->BlobByName("data_data_0_split_0"), Error);
  FillInputs(net.get());
  net->Forward();
  EXPECT_EQ(Values(*net, "left").size(), 10u);
  NetParameter proto;
  net->ToProto(&proto);
  ASSERT_EQ(proto.layer_size(), 4);
  EXPECT_EQ(proto.layer(2).bottom(0), "data");
}

TEST(NetTest, OutputsAreAlphabetical) {
  const auto net = MakeNet(Branches(), Cpu());
  ASSERT_EQ(net->output_blob_indices().size(), 2u);
  EXPECT_EQ(net->output_blobs()[0]->name(), "left");
  EXPECT_EQ(net->output_blobs()[1]->name(), "right");
  ASSERT_EQ(net->input_blobs().size(), 1u);
  EXPECT_EQ(net->input_blobs()[0]->name(), "data");
}

TEST(NetTest, PartsRunWithTheirSplitsAndCasts) {
  const auto net = MakeNet(Branches(), Cpu());
  FillInputs(net.get());
  net->Forward();
  const auto left = Values(*net, "left"), right = Values(*net, "right");
  const auto again = MakeNet(Branches(), Cpu());
  FillInputs(again.get());
  for (int layer = 0; layer < 4; ++layer) again->Forward(layer, layer);
  EXPECT_EQ(Values(*again, "left"), left);
  EXPECT_EQ(Values(*again, "right"), right);
  EXPECT_THROW(net->Forward(0, 4), Error);
  EXPECT_THROW(net->Forward(-1, 2), Error);
}

TEST(NetTest, AnotherShapeOfTheInputChangesAllShapes) {
  const auto net = MakeNet(Branches(), Cpu());
  net->BlobByName("data")->Reshape({7, 3});
  net->Reshape();
  EXPECT_EQ(net->BlobByName("left")->shape(), Shape({7, 5}));
  net->BlobByName("data")->Reshape({1, 3});
  FillInputs(net.get());
  net->Forward();  // without Reshape
  EXPECT_EQ(net->BlobByName("right")->shape(), Shape({1, 4}));
}

TEST(NetTest, CallbacksSeeEveryLayerOfTheUser) {
  const auto net = MakeNet(Branches() + "force_backward: true ", Cpu(), 0);
  std::vector<int> before, after, backward;
  net->set_before_forward([&](int layer) { before.push_back(layer); });
  net->set_after_forward([&](int layer) { after.push_back(layer); });
  net->set_after_backward([&](int layer) { backward.push_back(layer); });
  net->Forward();
  net->Backward();
  EXPECT_EQ(before, std::vector<int>({0, 1, 2, 3}));
  EXPECT_EQ(after, before);
  EXPECT_EQ(backward, std::vector<int>({3, 2, 1}));
}

// --- Errors --------------------------------------------------------------------------------------

std::string NetError(const std::string& text) {
  return MessageOf([&] { MakeNet(text, Cpu()); });
}

TEST(NetErrorTest, InPlace) {
  const std::string data = InputText("data", {2, 3});
  const std::string alone =
      NetError(data +
               "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'data' "
               "inner_product_param { num_output: 3 } }");
  EXPECT_TRUE(Holds(alone, "ip (InnerProduct): cannot work in place"));
  EXPECT_TRUE(Holds(alone, "'data'"));
  const std::string loss =
      NetError(data +
               "layer { name: 'square' type: 'Power' bottom: 'data' top: 'square' "
               "loss_weight: 1 } " +
               ReluText("relu", "square"));
  EXPECT_TRUE(Holds(loss, "relu (ReLU)"));
  EXPECT_TRUE(Holds(loss, "square"));
}

TEST(NetErrorTest, Wiring) {
  const std::string data = InputText("data", {2, 3});
  EXPECT_TRUE(Holds(NetError(data + InnerProductText("ip", "dat", 3)),
                    "Unknown bottom blob 'dat' (layer 'ip', bottom index 0)"));
  EXPECT_TRUE(Holds(NetError(data + InputText("other", {1}) +
                             "layer { name: 'again' type: 'Input' top: 'data' }"),
                    "Top blob 'data' produced by multiple sources (layer 'again')"));
  EXPECT_TRUE(Holds(NetError(data + "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'a' "
                                    "top: 'b' }"),
                    "r (ReLU): takes 1 top blob(s), but the net gives 2"));
  EXPECT_TRUE(
      Holds(NetError(data + InnerProductText("ip", "data", 3, "param { } param { } param { }")),
            "ip (InnerProduct): has 2 parameters, 3 param entries are given"));
  EXPECT_TRUE(
      Holds(NetError(data + InnerProductText("ip", "data", 3, "loss_weight: 1 loss_weight: 2")),
            "ip (InnerProduct)"));
  EXPECT_TRUE(Holds(NetError(data + InnerProductText("ip", "data", 3,
                                                     "propagate_down: true propagate_down: true")),
                    "propagate_down has 2 entries for 1 bottoms"));
}

// --- Parameters ----------------------------------------------------------------------------------

std::string Shared(const std::string& first, const std::string& second, int outputs = 3) {
  return InputText("data", {2, 3}) +
         InnerProductText("a", "data", 3, "param { name: 'w' " + first + " } param { name: 'b' }") +
         InnerProductText("b", "a", outputs, "param { name: 'w' " + second + " }");
}

TEST(NetParameterTest, SharedOnesAreOneBlob) {
  const auto net = MakeNet(Shared("lr_mult: 2", ""), Cpu(), 0);
  EXPECT_EQ(net->params().size(), 4u);
  ASSERT_EQ(net->learnable_params().size(), 3u);
  auto &a = net->LayerByName("a")->blobs(), &b = net->LayerByName("b")->blobs();
  EXPECT_EQ(a[0], b[0]);
  EXPECT_EQ(net->params()[0], net->params()[2]);
  EXPECT_EQ(net->learnable_params()[0], a[0].get());
  EXPECT_NE(a[1], b[1]);
  EXPECT_EQ(net->params_lr(), std::vector<float>({2, 1, 1}));
}

TEST(NetParameterTest, SharingChecksShapesAndMultipliers) {
  EXPECT_TRUE(
      Holds(NetError(Shared("", "", 4)), "b (InnerProduct): parameter 'w' of shape 4 3 (12)"));
  EXPECT_TRUE(Holds(NetError(Shared("lr_mult: 2", "lr_mult: 3")), "different lr_mult"));
  EXPECT_TRUE(Holds(NetError(Shared("decay_mult: 2", "decay_mult: 3")), "different decay_mult"));
  EXPECT_EQ(NetError(Shared("lr_mult: 2", "lr_mult: 2")), "");
  EXPECT_EQ(MakeNet(Shared("", "lr_mult: 5"), Cpu())->params_lr()[0], 5);
  // PERMISSIVE compares counts only: [2, 6] and [4, 3].
  const std::string text =
      InputText("x", {1, 6}) + InputText("y", {1, 3}) +
      InnerProductText("a", "x", 2, "param { name: 'w' }") +
      InnerProductText("b", "y", 4, "param { name: 'w' share_mode: PERMISSIVE }");
  const auto net = MakeNet(text, Cpu());
  const auto &a = net->LayerByName("a")->blobs(), &b = net->LayerByName("b")->blobs();
  EXPECT_EQ(a[0]->shape(), Shape({2, 6}));
  EXPECT_EQ(b[0]->shape(), Shape({4, 3}));
  EXPECT_EQ(a[0]->data_memory(), b[0]->data_memory());
  EXPECT_EQ(a[0]->diff_memory(), b[0]->diff_memory());
  EXPECT_EQ(net->learnable_params().size(), 3u);
  EXPECT_TRUE(Holds(NetError(text + "layer { name: 'c' type: 'InnerProduct' bottom: 'y' top: 'c' "
                                    "param { name: 'w' } inner_product_param { num_output: 4 } }"),
                    "c (InnerProduct): parameter 'w' of shape 4 3 (12) cannot be shared with that "
                    "of layer 'a' of shape 2 6 (12)"));
}

TEST(NetParameterTest, RoundTripThroughAFile) {
  const std::string text = Branches();
  const auto net = MakeNet(text, Cpu());
  FillInputs(net.get());
  net->Forward();
  NetParameter proto;
  net->ToProto(&proto);
  NetParameter read;
  ASSERT_TRUE(read.ParseFromString(proto.SerializeAsString()));
  NetOptions options;
  options.device = Cpu();
  options.phase = TEST;
  options.seed = 5;
  Net other(ParseNet(text), options);
  FillInputs(&other);
  other.Forward();
  EXPECT_NE(Values(other, "left"), Values(*net, "left"));
  other.CopyTrainedLayersFrom(read);
  other.Forward();
  EXPECT_EQ(Values(other, "left"), Values(*net, "left"));
  EXPECT_EQ(Values(other, "right"), Values(*net, "right"));
  // The written message is itself a net, with its weights.
  Net itself(read, options);
  FillInputs(&itself);
  itself.Forward();
  EXPECT_EQ(Values(itself, "right"), Values(*net, "right"));
}

TEST(NetParameterTest, WeightsThatDoNotFitAreNamed) {
  const auto net = MakeNet(InputText("data", {2, 3}) + InnerProductText("fc1", "data", 4), Cpu());
  NetParameter wider;
  MakeNet(InputText("data", {2, 3}) + InnerProductText("fc1", "data", 6), Cpu())->ToProto(&wider);
  const auto copy = [&] { net->CopyTrainedLayersFrom(wider); };
  for (const char* part : {"layer 'fc1', parameter 0", "4 3 (12)", "6 3 (18)"}) {
    EXPECT_TRUE(Holds(MessageOf(copy), part));
  }
  wider.mutable_layer(1)->mutable_blobs()->RemoveLast();
  for (const char* part : {"layer 'fc1'", "has 2 parameters", "the file has 1"}) {
    EXPECT_TRUE(Holds(MessageOf(copy), part));
  }
  wider.mutable_layer(1)->set_name("other");  // layers that are not in the net are left out
  EXPECT_EQ(MessageOf(copy), "");
}

TEST(NetParameterTest, WeightsThatDoNotFitChangeNothing) {
  const auto text = [](int outputs) {
    return InputText("data", {2, 3}) + InnerProductText("fc1", "data", 4) +
           InnerProductText("fc2", "fc1", outputs);
  };
  const auto net = MakeNet(text(5), Cpu());
  NetParameter other;
  MakeNet(text(6), Cpu())->ToProto(&other);
  for (LayerParameter& layer : *other.mutable_layer()) {
    for (BlobProto& blob : *layer.mutable_blobs()) blob.set_data(0, 77);
  }
  EXPECT_TRUE(Holds(MessageOf([&] { net->CopyTrainedLayersFrom(other); }), "layer 'fc2'"));
  EXPECT_NE(net->LayerByName("fc1")->blobs()[0]->DataAsDouble()[0], 77);
}

TEST(NetParameterTest, LayersOfOneNameKeepTheirWeights) {
  const std::string one = InnerProductText("fc", "data", 3);
  std::string two = InnerProductText("fc", "data", 3);
  two.replace(two.find("top: 'fc'"), 9, "top: 'other'");
  const std::string text = InputText("data", {2, 3}) + one + two;
  const auto net = MakeNet(text, Cpu()), copy = MakeNet(text, Cpu()), shared = MakeNet(text, Cpu());
  net->layers()[2]->blobs()[0]->SetData(TestNumbers(9, 4));
  NetParameter saved;
  net->ToProto(&saved);
  copy->CopyTrainedLayersFrom(saved);
  shared->ShareTrainedLayersWith(*net);
  for (int layer : {1, 2}) {
    const auto weights = net->layers()[layer]->blobs()[0]->DataAsDouble();
    EXPECT_EQ(copy->layers()[layer]->blobs()[0]->DataAsDouble(), weights);
    EXPECT_EQ(shared->layers()[layer]->blobs()[0]->DataAsDouble(), weights);
  }
  const TemporaryFolder folder;
  const std::string message = MessageOf([&] { net->SaveHDF5(folder / "w.h5"); });
  EXPECT_TRUE(Holds(message, "two layers with parameters are called 'fc'")) << message;
}

TEST(NetParameterTest, FillersRunWhenTheirValuesAreRead) {
  const std::string text = InputText("data", {2, 3}) + InnerProductText("fc1", "data", 4);
  const auto stored = [](const Net& net) { return net.params()[0]->data_memory()->stored(); };
  NetParameter saved;
  auto filled = MakeNet(text, Cpu());
  EXPECT_FALSE(stored(*filled));
  filled->ToProto(&saved);
  EXPECT_TRUE(stored(*filled));
  const std::vector<double> weights = filled->params()[0]->DataAsDouble();

  // Weights that do not fit change nothing.
  const auto net = MakeNet(text, Cpu());
  NetParameter wrong = saved;
  wrong.mutable_layer(1)->mutable_blobs(0)->add_data(1);
  EXPECT_THROW(net->CopyTrainedLayersFrom(wrong), Error);
  EXPECT_FALSE(stored(*net));
  EXPECT_EQ(net->params()[0]->DataAsDouble(), weights);

  for (float& weight : *saved.mutable_layer(1)->mutable_blobs(0)->mutable_data()) weight += 1;
  const auto copy = MakeNet(text, Cpu());
  copy->CopyTrainedLayersFrom(saved);
  EXPECT_EQ(copy->params()[0]->DataAsDouble()[3], static_cast<float>(weights[3] + 1));

  // A blob outlives its net, and nets that share weights do not run the filler.
  const auto shared = MakeNet(text, Cpu());
  {
    const auto other = MakeNet(text, Cpu());
    shared->ShareTrainedLayersWith(*other);
    EXPECT_TRUE(stored(*other));
  }
  EXPECT_EQ(shared->params()[0]->DataAsDouble(), weights);
  const auto blob = MakeNet(text, Cpu())->params()[0];
  EXPECT_FALSE(blob->data_memory()->stored());
  EXPECT_EQ(blob->DataAsDouble(), weights);
}

TEST(NetParameterTest, WeightsWithoutANameAreAnError) {
  const auto net = MakeNet(InputText("data", {2, 3}) + InnerProductText("fc1", "data", 4), Cpu());
  EXPECT_TRUE(Holds(MessageOf([&] { net->CopyTrainedLayersFrom(""); }), "is empty"));
  EXPECT_TRUE(Holds(MessageOf([&] { net->CopyTrainedLayersFrom(std::vector<std::string>()); }),
                    "no file of weights is named"));
  EXPECT_TRUE(Holds(MessageOf([&] { net->CopyTrainedLayersFrom(" "); }), "File not found: ' '"));
  for (const char* path : {",", "a,b"}) {  // a path is a path
    EXPECT_TRUE(Holds(MessageOf([&] { net->CopyTrainedLayersFrom(path); }),
                      Concat("File not found: ", path)));
  }
}

TEST(NetParameterTest, WeightsOfAnotherNetAreAWarning) {
  const auto net = MakeNet(InputText("data", {2, 3}) + InnerProductText("fc1", "data", 4), Cpu());
  NetParameter other;
  MakeNet("name: 'other' " + InputText("data", {2, 3}) + InnerProductText("fc2", "data", 4), Cpu())
      ->ToProto(&other);
  testing::internal::CaptureStderr();
  net->CopyTrainedLayersFrom(other);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Holds(log, "] Ignoring source layer fc2")) << log;
  EXPECT_TRUE(Holds(log, "of the weights of net 'other'")) << log;
  EXPECT_TRUE(Holds(log, "nothing was copied")) << log;
}

TEST(NetParameterTest, AnotherNetsParametersAreUsed) {
  const std::string text = InputText("data", {2, 3}) + InnerProductText("fc1", "data", 4);
  const auto train = MakeNet(text, Cpu(), 0);
  const auto test = MakeNet(text, Cpu(), 1);
  test->ShareTrainedLayersWith(*train);
  train->learnable_params()[0]->SetData(std::vector<double>(12, 2));
  train->learnable_params()[1]->SetData(std::vector<double>(4, 1));
  test->BlobByName("data")->SetData({1, 1, 1, 0, 0, 0});
  test->Forward();
  EXPECT_EQ(Values(*test, "fc1"), std::vector<double>({7, 7, 7, 7, 1, 1, 1, 1}));
}

// --- Losses and gradients ------------------------------------------------------------------------

// A shared weight, a split, an in-place layer, and two losses with weights.
const char* const kLosses =
    "layer { name: 'sum' type: 'EuclideanLoss' bottom: 'two' bottom: 'target' top: 'sum' "
    "  loss_weight: 0.5 } "
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'two' bottom: 'label' top: 'loss' } ";

std::string TwoLosses() {
  return InputText("data", {4, 3}) + InputText("target", {4, 3}) + InputText("label", {4}) +
         InnerProductText("one", "data", 3, "param { name: 'w' }") + ReluText("relu", "one") +
         InnerProductText("two", "one", 3, "param { name: 'w' }") + kLosses;
}

void FillTwoLosses(Net* net) {
  net->BlobByName("data")->SetData(TestNumbers(12, 5));
  net->BlobByName("target")->SetData(TestNumbers(12, 6));
  net->BlobByName("label")->SetData({0, 2, 1, 1});
}

TEST(NetGradientTest, AgreesWithDifferences) {
  const auto net = MakeNet("data_type: CAFFE_DOUBLE force_backward: true " + TwoLosses(), Cpu(), 0);
  FillTwoLosses(net.get());
  net->ClearParamDiffs();
  net->Forward();
  net->Backward();
  std::vector<BlobBase*> blobs = net->learnable_params();
  ASSERT_EQ(blobs.size(), 3u);
  blobs.push_back(net->BlobByName("data").get());
  for (BlobBase* blob : blobs) {
    ASSERT_EQ(blob->type(), kDouble);
    const std::vector<double> gradient = blob->DiffAsDouble();
    std::vector<double> values = blob->DataAsDouble();
    const double step = 1e-3;  // the loss is read as a float
    for (size_t i = 0; i < values.size(); ++i) {
      const double value = values[i];
      const auto loss_at = [&](double x) {
        values[i] = x;
        blob->SetData(values);
        net->Forward();
        double loss = 0;
        for (BlobBase* output : net->output_blobs()) {
          loss += output->DataAsDouble()[0] * (output->name() == "sum" ? 0.5 : 1);
        }
        return loss;
      };
      const double expected = (loss_at(value + step) - loss_at(value - step)) / (2 * step);
      loss_at(value);
      EXPECT_NEAR(gradient[i], expected, 1e-4) << blob->name() << " " << i;
    }
  }
}

TEST(NetLossTest, TheWeightedSumOfAllLosses) {
  const auto net = MakeNet(TwoLosses(), Cpu(), 0);
  FillTwoLosses(net.get());
  net->Forward();
  const double expected = 0.5 * Values(*net, "sum")[0] + Values(*net, "loss")[0];
  EXPECT_NEAR(net->Loss(), expected, 1e-6);
  std::map<std::string, float> weights;
  for (size_t i = 0; i < net->blobs().size(); ++i) {
    weights[net->blob_names()[i]] = net->blob_loss_weights()[i];
  }
  EXPECT_EQ(weights["sum"], 0.5f);
  EXPECT_EQ(weights["loss"], 1.f);
  EXPECT_EQ(weights["two"], 0.f);
}

TEST(NetLossTest, ALossThatIsReadCountsOnce) {
  const auto net = MakeNet(TwoLosses() +
                               "layer { name: 's1' type: 'Silence' bottom: 'loss' } "
                               "layer { name: 's2' type: 'Silence' bottom: 'loss' }",
                           Cpu(), 0);
  FillTwoLosses(net.get());
  net->Forward();
  EXPECT_NEAR(net->Loss(), 0.5 * Values(*net, "sum")[0] + Values(*net, "loss")[0], 1e-6);
}

// The gradients of the loss and of its readers add up, whether they are one or two, and whether the
// layer is a loss by its type or by its weight.
TEST(NetLossTest, ALossThatIsReadHasTheGradientOfBoth) {
  for (const char* more : {"", "layer { name: 's' type: 'Silence' bottom: 'one' }"}) {
    const auto net = MakeNet(
        "data_type: CAFFE_DOUBLE " + InputText("data", {4, 3}) + InputText("target", {4, 2}) +
            InnerProductText("one", "data", 3, "loss_weight: 0.25") +
            InnerProductText("two", "one", 2) +
            "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'two' bottom: 'target' top: 'loss' "
            "} layer { name: 'again' type: 'ReLU' bottom: 'loss' top: 'again' loss_weight: 3 } " +
            more,
        Cpu(), 0);
    FillInputs(net.get());
    net->ClearParamDiffs();
    net->Forward();
    net->Backward();
    BlobBase* weights = net->learnable_params()[0];
    const std::vector<double> gradient = weights->DiffAsDouble();
    std::vector<double> values = weights->DataAsDouble();
    for (size_t i = 0; i < values.size(); ++i) {
      const double value = values[i], step = 1e-3;
      const auto loss_at = [&](double x) {
        values[i] = x;
        weights->SetData(values);
        net->Forward();
        double loss = (1 + 3) * Values(*net, "loss")[0];
        for (double y : Values(*net, "one")) loss += 0.25 * y;
        EXPECT_NEAR(net->Loss(), loss, 1e-5);
        return loss;
      };
      const double expected = (loss_at(value + step) - loss_at(value - step)) / (2 * step);
      loss_at(value);
      EXPECT_NEAR(gradient[i], expected, 1e-6) << more << " " << i;
    }
  }
}

TEST(NetLossTest, ALossNeedsNoName) {
  const auto net = MakeNet(InputText("data", {4, 3}) + InputText("label", {4}) +
                               InnerProductText("ip", "data", 3) +
                               "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' "
                               "bottom: 'label' }",
                           Cpu(), 0);
  net->Forward();
  EXPECT_GT(net->Loss(), 0);
}

bool AllZero(const std::vector<double>& values) {
  for (double value : values) {
    if (value != 0) return false;
  }
  return true;
}

TEST(NetGradientTest, PropagateDownStopsAGradient) {
  for (bool through : {true, false}) {
    const auto net = MakeNet(
        InputText("data", {4, 3}) + InputText("label", {4}) + InnerProductText("one", "data", 5) +
            InnerProductText("two", "one", 3,
                             Concat("propagate_down: ", through ? "true" : "false")) +
            "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'two' bottom: 'label' }",
        Cpu(), 0);
    FillInputs(net.get());
    net->BlobByName("label")->SetData({0, 1, 2, 0});
    net->ClearParamDiffs();
    net->Forward();
    net->Backward();
    EXPECT_EQ(AllZero(net->LayerByName("one")->blobs()[0]->DiffAsDouble()), !through);
    EXPECT_FALSE(AllZero(net->LayerByName("two")->blobs()[0]->DiffAsDouble()));
  }
}

TEST(NetGradientTest, ForceBackwardReachesTheInputs) {
  for (bool force : {true, false}) {
    const auto net =
        MakeNet(Concat("force_backward: ", force ? "true " : "false ") + TwoLosses(), Cpu(), 0);
    FillTwoLosses(net.get());
    net->Forward();
    net->Backward();
    EXPECT_EQ(AllZero(net->BlobByName("data")->DiffAsDouble()), !force);
  }
}

TEST(NetGradientTest, AFrozenParameterGetsNone) {
  const auto net = MakeNet(InputText("data", {4, 3}) + InputText("label", {4}) +
                               InnerProductText("ip", "data", 3, "param { lr_mult: 0 }") +
                               "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' "
                               "bottom: 'label' }",
                           Cpu(), 0);
  FillInputs(net.get());
  net->BlobByName("label")->SetData({0, 1, 2, 0});
  net->ClearParamDiffs();
  net->Forward();
  net->Backward();
  EXPECT_TRUE(AllZero(net->learnable_params()[0]->DiffAsDouble()));
  EXPECT_FALSE(AllZero(net->learnable_params()[1]->DiffAsDouble()));
}

// --- Fusion --------------------------------------------------------------------------------------

std::string Deploy() {
  return InputText("data", {6, 10}) + InnerProductText("ip1", "data", 16) +
         ReluText("relu1", "ip1") + InnerProductText("ip2", "ip1", 5);
}

int FusedSteps(const Net& net) { return net.plan().fused_steps(); }

class NetOnDeviceTest : public testing::TestWithParam<DeviceType> {
 protected:
  std::string Typed(const std::string& text) const {
    return Concat(
        "data_type: ", DataTypeProto_Name(static_cast<DataTypeProto>(GetParam().type.info().proto)),
        " ", text);
  }
};

TEST_P(NetOnDeviceTest, AFusedReLUEqualsTheLayer) {
  const auto [device, type] = GetParam();
  const auto net = MakeNet(Typed(Deploy()), device);
  ASSERT_EQ(FusedSteps(*net), 1);
  FillInputs(net.get());
  net->Forward();
  const auto fused_ip1 = Values(*net, "ip1"), fused_ip2 = Values(*net, "ip2");
  net->set_after_forward([](int) {});  // layer by layer
  net->Forward();
  ExpectNear(fused_ip1, Values(*net, "ip1"), Tolerance(type), "ip1");
  ExpectNear(fused_ip2, Values(*net, "ip2"), 4 * Tolerance(type), "ip2");
  net->set_after_forward(nullptr);
  net->Forward(0, 1);  // up to ip1, before its ReLU
  double lowest = 0;
  for (double value : Values(*net, "ip1")) lowest = std::min(lowest, value);
  EXPECT_LT(lowest, 0);
  net->Forward(2, 3);
  ExpectNear(Values(*net, "ip2"), fused_ip2, 4 * Tolerance(type), "ip2 in two parts");
}

TEST(NetFusionTest, OnlyWhereNobodySeesTheDifference) {
  EXPECT_EQ(FusedSteps(*MakeNet(Deploy(), Cpu(), 0)), 0);  // training
  EXPECT_EQ(FusedSteps(*MakeNet("force_backward: true " + Deploy(), Cpu())), 0);
}

// debug_info that is turned on later sees the layers that are fused, too.
TEST(NetDebugTest, LinesAreThoseOfCaffe) {
  const auto net = MakeNet(Deploy(), Cpu());
  ASSERT_EQ(FusedSteps(*net), 1);
  FillInputs(net.get());
  net->set_debug_info(true);
  testing::internal::CaptureStderr();
  net->Forward();
  std::string log = testing::internal::GetCapturedStderr();
  for (const char* line : {"]     [Forward] Layer ip1, top blob ip1 data: ",
                           "]     [Forward] Layer ip1, param blob 1 data: ",
                           "]     [Forward] Layer relu1, top blob ip1 data: "}) {
    EXPECT_TRUE(Holds(log, line)) << line << log;
  }
  const auto train = MakeNet("debug_info: true force_backward: true " + TwoLosses(), Cpu(), 0);
  FillTwoLosses(train.get());
  train->Forward();
  testing::internal::CaptureStderr();
  train->Backward();
  log = testing::internal::GetCapturedStderr();
  for (const char* line :
       {"]     [Backward] Layer one, bottom blob data diff: ",
        "]     [Backward] Layer two, param blob 0 diff: ",
        "]     [Backward] All net params (data, diff): L1 norm = (", "); L2 norm = ("}) {
    EXPECT_TRUE(Holds(log, line)) << line << log;
  }
}

TEST(NetDebugTest, TheNetIsPrintedWithoutItsWeights) {
  NetParameter proto;
  MakeNet(Deploy(), Cpu())->ToProto(&proto);
  NetOptions options;
  options.device = Cpu();
  testing::internal::CaptureStderr();
  const Net net(proto, options);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Holds(log, "] Initializing net from parameters: \n")) << log;
  EXPECT_FALSE(Holds(log, "blobs {"));
}

// --- Types and devices ---------------------------------------------------------------------------

TEST_P(NetOnDeviceTest, CopiesOfMastersFollowEdits) {
  const auto [device, type] = GetParam();
  const auto net =
      MakeNet(Typed(InputText("data", {1, 2}) + InnerProductText("ip", "data", 2)), device);
  BlobBase *weights = net->learnable_params()[0], *bias = net->learnable_params()[1];
  EXPECT_EQ(weights->type(), type == kDouble ? kDouble : kFloat);
  EXPECT_EQ(net->BlobByName("ip")->type(), type);
  net->BlobByName("data")->SetData({1, 2});
  weights->SetData({1, 0, 0, 1});
  bias->SetData({0, 0});
  net->Forward();
  EXPECT_EQ(Values(*net, "ip"), std::vector<double>({1, 2}));
  weights->SetData({0, 1, 3, 0});
  bias->SetData({0.5, 0});
  net->Forward();
  EXPECT_EQ(Values(*net, "ip"), std::vector<double>({2.5, 3}));
  // Nothing changed: no launch for a copy.
  device->ResetCounters();
  net->Forward();
  const int64_t unchanged = device->counters().launches;
  weights->mutable_host_data();
  device->ResetCounters();
  net->Forward();
  // Narrow weights are converted. The CPU also widens them if it has no instruction for that, which
  // products with few rows use.
  const bool narrow = type == kHalf || type == kBfloat16;
  const bool widened = device->host_accessible() && type == kHalf && !HostRowSteps().dots_half;
  // Products by matrix units on OpenCL pack them.
  const bool packs = device->info().matrix && device->backend() == "opencl" && type != kDouble;
  const int copies = (!narrow ? 0 : widened ? 2 : 1) + (packs ? 1 : 0);
  EXPECT_EQ(device->counters().launches, unchanged + copies);
}

TEST_P(NetOnDeviceTest, MovesWithTheDefaultDeviceOfItsThread) {
  const auto [device, type] = GetParam();
  // Layers with operators, kernels and buffers of their own.
  const std::string text =
      InputText("data", {2, 1, 8, 8}) +
      "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param { "
      "  num_output: 4 kernel_size: 3 weight_filler { type: 'xavier' } } } " +
      ReluText("relu", "conv") +
      "layer { name: 'pool' type: 'Pooling' bottom: 'conv' top: 'pool' pooling_param { "
      "  kernel_size: 2 stride: 2 } } " +
      InnerProductText("ip2", "pool", 5);
  NetOptions options;
  options.phase = TEST;
  options.seed = 1701;
  Runtime::Get().SetDefaultDevice(Cpu());
  Net net(ParseNet(Typed(text)), options);
  EXPECT_EQ(net.device(), Cpu());
  const auto fixed = MakeNet(Typed(text), Cpu());
  FillInputs(&net);
  FillInputs(fixed.get());
  net.Forward();
  const auto before = Values(net, "ip2");
  Runtime::Get().SetDefaultDevice(device);
  net.Forward();
  fixed->Forward();
  Runtime::Get().SetDefaultDevice(nullptr);
  EXPECT_EQ(net.device(), device);
  EXPECT_EQ(net.BlobByName("ip2")->device(), device);
  EXPECT_EQ(fixed->device(), Cpu());  // it was built on a device of its own
  ExpectNear(Values(net, "ip2"), before, 4 * Tolerance(type), "ip2");
  net.SetDevice(Cpu());
  net.Forward();
  EXPECT_EQ(Values(net, "ip2"), before);
}

TEST_P(NetOnDeviceTest, TrainsOneStepAsInDouble) {
  const auto [device, type] = GetParam();
  const auto net = MakeNet(Typed(TwoLosses()), device, 0);
  const auto reference = MakeNet("data_type: CAFFE_DOUBLE " + TwoLosses(), Cpu(), 0);
  for (Net* each : {net.get(), reference.get()}) {
    FillTwoLosses(each);
    for (size_t i = 0; i < each->learnable_params().size(); ++i) {
      BlobBase* blob = each->learnable_params()[i];
      blob->SetData(TestNumbers(blob->count(), 40 + i));
    }
    each->ClearParamDiffs();
    each->Forward();
    each->Backward();
  }
  EXPECT_NEAR(net->Loss(), reference->Loss(), 4 * Tolerance(type));
  for (size_t i = 0; i < net->learnable_params().size(); ++i) {
    ExpectNear(net->learnable_params()[i]->DiffAsDouble(),
               reference->learnable_params()[i]->DiffAsDouble(), 4 * Tolerance(type),
               net->learnable_params()[i]->name());
  }
  EXPECT_EQ(net->has_narrow_gradients(), type == kHalf || type == kBfloat16);
}

INSTANTIATE_TEST_SUITE_P(All, NetOnDeviceTest, testing::ValuesIn(DevicesAndFloatsOfNets()),
                         [](const auto& info) { return TestName(info.param); });

// --- Views and ranges ----------------------------------------------------------------------------

TEST(NetViewTest, WhatAViewHoldsIsWhatTheNetUses) {
  const auto net = MakeNet(InputText("data", {1, 2}) + InnerProductText("ip", "data", 2), Cpu());
  for (Device* device : TestDevices()) {
    net->SetDevice(device);
    const auto view = net->BlobByName("data")->data_memory()->View();
    const auto result = net->BlobByName("ip")->data_memory()->View();
    net->learnable_params()[0]->SetData({1, 0, 0, 1});
    net->learnable_params()[1]->SetData({0, 0});
    for (float value : {3.f, 4.f}) {
      static_cast<float*>(view.get())[0] = value;
      net->Forward();
      EXPECT_EQ(static_cast<const float*>(result.get())[0], value) << device->info().id;
    }
  }
}

// Copies the first half of its bottom.
class TestHalf final : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override {
    top[0]->ReshapeLike(*bottom[0]);
  }
  void Forward(const BlobVec& bottom, const BlobVec& top) override {
    device()->Copy(top[0]->mutable_device_data(), bottom[0]->device_data(), top[0]->bytes() / 2);
  }
};

TEST(NetViewTest, ALayerLeavesWhatItDoesNotWrite) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = traits.min_top = traits.max_top = 1;
  traits.types = BuiltInTypes();
  LayerRegistry::Get().AddUntyped("TestHalf", traits,
                                  [](const LayerParameter& parameter, const LayerContext& context) {
                                    return std::make_shared<TestHalf>(parameter, context);
                                  });
  const std::string text = InputText("data", {1, 8}) +
                           "layer { name: 'half' type: 'TestHalf' bottom: 'data' top: 'half' }";
  for (Device* device : TestDevices()) {
    for (const double rest : {0., 7.}) {
      const auto net = MakeNet(text, device, TRAIN);
      net->BlobByName("data")->SetData(std::vector<double>(8, 3));
      BlobBase& half = *net->BlobByName("half");
      std::shared_ptr<void> view;
      if (rest > 0) {
        view = half.data_memory()->View();
        std::fill_n(static_cast<float*>(view.get()), 8, static_cast<float>(rest));
      }
      for (int pass = 0; pass < 2; ++pass) {
        net->Forward();
        EXPECT_EQ(half.DataAsDouble(), (std::vector<double>{3, 3, 3, 3, rest, rest, rest, rest}))
            << device->info().id;
      }
    }
  }
}

TEST(NetRangeTest, EachVersionOfABlobHasARangeOfItsOwn) {
  const auto net = MakeNet(Deploy(), Cpu());
  net->set_observe(true);
  for (uint64_t seed : {3, 4}) {
    FillInputs(net.get(), seed);
    net->Forward();
  }
  auto ranges = net->Ranges();
  ASSERT_EQ(ranges.size(), 4u);
  EXPECT_LT(ranges.at("ip1@ip1").low, 0);
  EXPECT_EQ(ranges.at("ip1").low, 0);  // behind the ReLU
  EXPECT_EQ(ranges.at("ip1").high, ranges.at("ip1@ip1").high);
  NetParameter proto;
  net->ToProto(&proto);
  EXPECT_EQ(proto.quantizer_size(), 4);
  const auto other = MakeNet(Deploy(), Cpu());
  EXPECT_TRUE(other->Ranges().empty());
  other->CopyTrainedLayersFrom(proto);
  EXPECT_EQ(other->Ranges().at("ip1").high, static_cast<float>(ranges.at("ip1").high));
}

}  // namespace
}  // namespace caffe

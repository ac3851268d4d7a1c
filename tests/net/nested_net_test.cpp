// Composite layers: the layers of their SubNets are nodes of the parent's wiring.
#include "caffe/device/runtime.hpp"
#include "caffe/net/step_info.hpp"
#include "caffe/quant/packed_parameter.hpp"
#include "io/temporary_folder.hpp"
#include "net/nested_support.hpp"
#include "support/devices.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

using Names = std::vector<std::string>;

Device* Cpu() { return Runtime::Get().cpu(); }

// Two layers with weights; the input is read twice and changed in place.
BlockText TwoProducts() {
  return {ReluText("relu", "x") + InnerProductText("a", "x", 4) + InnerProductText("b", "x", 4) +
              "layer { name: 'sum' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 'sum' } ",
          {"x"},
          {"sum"}};
}

std::string Loss(const std::string& bottom) {
  return "layer { name: 'loss' type: 'EuclideanLoss' bottom: '" + bottom +
         "' bottom: 'target' top: 'loss' } ";
}

// data -> ip -> block -> (in place) relu -> loss, and the same without a composite layer.
std::string Nested(const std::string& more = "") {
  BlockTexts()["block"] = TwoProducts();
  return InputText("data", {3, 5}) + InputText("target", {3, 4}) +
         InnerProductText("ip", "data", 6) + BlockLayer("block", {"ip"}, {"out"}, more) +
         ReluText("after", "out") + Loss("out");
}

std::string Flat(const std::string& more = "") {
  return InputText("data", {3, 5}) + InputText("target", {3, 4}) +
         InnerProductText("ip", "data", 6) +
         "layer { name: 'relu' type: 'ReLU' bottom: 'ip' top: 'x' } " +
         InnerProductText("a", "x", 4, more) + InnerProductText("b", "x", 4, more) +
         "layer { name: 'sum' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 'out' } " +
         ReluText("after", "out") + Loss("out");
}

// Gives `to` the parameters of `from`, in their order.
void CopyParameters(const Net& from, Net* to) {
  ASSERT_EQ(from.params().size(), to->params().size());
  for (size_t i = 0; i < from.params().size(); ++i) {
    to->params()[i]->CopyDataFrom(*from.params()[i]);
  }
}

std::vector<double> Diffs(const Net& net) {
  std::vector<double> all;
  for (const BlobBase* blob : net.learnable_params()) {
    const std::vector<double> diff = blob->DiffAsDouble();
    all.insert(all.end(), diff.begin(), diff.end());
  }
  return all;
}

TEST(NestedNetTest, TheUserSeesOneLayer) {
  const auto net = MakeNet(Nested(), Cpu());
  EXPECT_EQ(net->layer_names(), Names({"data", "target", "ip", "block", "after", "loss"}));
  EXPECT_EQ(net->blob_names(), Names({"data", "target", "ip", "out", "loss"}));
  EXPECT_EQ(net->bottom_ids(3), std::vector<int>({2}));
  EXPECT_EQ(net->top_ids(3), std::vector<int>({3}));
  EXPECT_FALSE(net->has_layer("block/a"));
  EXPECT_FALSE(net->has_blob("block/a"));
  EXPECT_EQ(net->params().size(), 6u);
  EXPECT_EQ(net->learnable_params().size(), 6u);
  ASSERT_EQ(net->LayerByName("block")->blobs().size(), 4u);
  EXPECT_EQ(net->LayerByName("block")->blobs()[0], net->params()[2]);
  const auto& block = dynamic_cast<const TestBlock&>(*net->LayerByName("block"));
  EXPECT_EQ(block.names, Names({"block/relu", "block/a", "block/b", "block/sum"}));
  NetParameter proto;
  net->ToProto(&proto);
  ASSERT_EQ(proto.layer_size(), 6);
  EXPECT_EQ(proto.layer(3).bottom(0), "ip");
  EXPECT_EQ(proto.layer(3).blobs_size(), 4);
}

TEST(NestedNetTest, IsComputedLikeItsLayers) {
  for (const int phase : {0, 1}) {
    for (Device* device : TestDevices()) {
      const std::string force = phase == 1 ? "force_backward: true " : "";
      const auto net = MakeNet(force + Nested(), device, phase);
      const auto flat = MakeNet(force + Flat(), device, phase);
      CopyParameters(*net, flat.get());
      for (Net* one : {net.get(), flat.get()}) {
        FillInputs(one);
        one->Forward();
        one->ClearParamDiffs();
        one->Backward();
      }
      EXPECT_EQ(Values(*net, "out"), Values(*flat, "out"));
      EXPECT_EQ(Values(*net, "ip"), Values(*flat, "ip"));
      EXPECT_EQ(Diffs(*net), Diffs(*flat));
      EXPECT_EQ(net->BlobByName("ip")->DiffAsDouble(), flat->BlobByName("ip")->DiffAsDouble());
    }
  }
}

// The plan's steps contain nested layers, and fuse them.
TEST(NestedNetTest, StepsAreThoseOfTheNestedLayers) {
  const auto net = MakeNet(Nested(), Cpu());
  std::string steps;
  for (const StepInfo& step : net->Steps()) steps += step.name() + "\n";
  EXPECT_NE(steps.find("block/b + block/sum"), std::string::npos) << steps;
  EXPECT_NE(steps.find("block\n"), std::string::npos) << steps;
}

TEST(NestedNetTest, PartialPasses) {
  const auto net = MakeNet(Nested(), Cpu(), 0);
  FillInputs(net.get());
  net->Forward();
  const std::vector<double> out = Values(*net, "out");
  net->ClearParamDiffs();
  net->Backward();
  const std::vector<double> diffs = Diffs(*net);
  // From and to the composite layer.
  net->BlobByName("out")->SetData(std::vector<double>(12, 0));
  net->Forward(3, 4);
  EXPECT_EQ(Values(*net, "out"), out);
  net->Forward(0, 2);
  net->Forward(3, 5);
  EXPECT_EQ(Values(*net, "out"), out);
  net->ClearParamDiffs();
  net->Backward(5, 4);
  net->Backward(3, 3);
  net->Backward(2, 0);
  EXPECT_EQ(Diffs(*net), diffs);
  // A changed input of the layer is what it reads.
  net->BlobByName("ip")->SetData(std::vector<double>(18, -1));
  net->Forward(3, 5);
  EXPECT_NE(Values(*net, "out"), out);
}

TEST(NestedNetTest, CallbacksSeeOneLayer) {
  const auto net = MakeNet(Nested(), Cpu(), 0);
  FillInputs(net.get());
  std::vector<int> calls;
  net->set_before_forward([&](int layer) { calls.push_back(layer); });
  net->set_after_forward([&](int layer) { calls.push_back(100 + layer); });
  net->set_before_backward([&](int layer) { calls.push_back(200 + layer); });
  net->set_after_backward([&](int layer) { calls.push_back(300 + layer); });
  net->Forward(2, 5);
  EXPECT_EQ(calls, std::vector<int>({2, 102, 3, 103, 4, 104, 5, 105}));
  calls.clear();
  net->Backward();
  EXPECT_EQ(calls, std::vector<int>({205, 305, 204, 304, 203, 303, 202, 302}));
}

TEST(NestedNetTest, ParamEntriesOfTheLayerTakePrecedence) {
  BlockTexts()["block"] = TwoProducts();
  BlockTexts()["block"].net =
      InnerProductText("a", "x", 4, "param { lr_mult: 3 } param { name: 'bias' decay_mult: 5 }") +
      InnerProductText("b", "x", 4, "param { lr_mult: 7 } param { name: 'bias' }") +
      "layer { name: 'sum' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 'sum' } ";
  BlockTexts()["block"].parameters = {{"b", 0}, {"a", 1}, {"a", 0}};
  const auto net =
      MakeNet(InputText("data", {3, 5}) + InputText("target", {3, 4}) +
                  BlockLayer("block", {"data"}, {"out"},
                             "param { lr_mult: 2 } param { lr_mult: 0 } param { decay_mult: 9 }") +
                  Loss("out"),
              Cpu(), 0);
  ASSERT_EQ(net->learnable_params().size(), 3u);
  EXPECT_EQ(net->params_lr(), std::vector<float>({2, 0, 3}));
  EXPECT_EQ(net->params_weight_decay(), std::vector<float>({1, 5, 9}));
  const auto& blobs = net->LayerByName("block")->blobs();
  EXPECT_EQ(blobs[1]->shape(), Shape({4}));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(blobs[i].get(), net->learnable_params()[i]);
  FillInputs(net.get());
  net->ForwardBackward();
  // lr_mult: 0 reaches both layers that share the bias.
  EXPECT_EQ(blobs[1]->asum_diff(), 0);
  EXPECT_GT(blobs[2]->asum_diff(), 0);
}

TEST(NestedNetTest, ParametersAreSharedWithOtherLayers) {
  BlockTexts()["block"] = {InnerProductText("a", "x", 5), {"x"}, {"a"}};
  const auto net = MakeNet(InputText("data", {3, 5}) +
                               InnerProductText("own", "data", 5, "param { name: 'w' }") +
                               BlockLayer("block", {"own"}, {"out"}, "param { name: 'w' }"),
                           Cpu());
  EXPECT_EQ(net->params().size(), 4u);
  EXPECT_EQ(net->learnable_params().size(), 3u);
  EXPECT_EQ(net->LayerByName("block")->blobs()[0], net->LayerByName("own")->blobs()[0]);
}

TEST(NestedNetTest, WeightsTravelInFiles) {
  const TemporaryFolder folder;
  const auto net = MakeNet(Nested(), Cpu());
  FillInputs(net.get());
  net->Forward();
  const std::vector<double> out = Values(*net, "out");
  NetParameter proto;
  net->ToProto(&proto);
  net->SaveHDF5(folder / "net.h5");
  NetOptions options;
  options.device = Cpu();
  options.seed = 1;
  const auto check = [&](const std::function<void(Net*)>& load, const NetParameter& text) {
    Net other(text, options);
    FillInputs(&other);
    load(&other);
    other.Forward();
    EXPECT_EQ(Values(other, "out"), out);
  };
  const NetParameter text = ParseNet(Nested());
  check([&](Net* other) { other->CopyTrainedLayersFrom(proto); }, text);
  check([&](Net* other) { other->LoadHDF5(folder / "net.h5"); }, text);
  check([&](Net* other) { other->ShareTrainedLayersWith(*net); }, text);
  check([&](Net*) {}, proto);  // blobs in the layers of the net itself
  proto.mutable_layer(3)->mutable_blobs()->RemoveLast();
  EXPECT_NE(MessageOf([&] { Net(proto, options); }).find("block (TestBlock): 3 blobs are given"),
            std::string::npos);
}

// A nested layer keeps half weights of a file as they are.
TEST(NestedNetTest, PackedWeightsStayPacked) {
  const std::string text = "data_type: CAFFE_HALF " + Nested();
  const auto net = MakeNet(text, Cpu());
  NetParameter proto;
  net->ToProto(&proto);
  for (LayerParameter& layer : *proto.mutable_layer()) {
    for (BlobProto& blob : *layer.mutable_blobs()) {
      if (blob.shape().dim_size() < 2) continue;
      std::string packed;
      for (const float value : blob.data()) {
        const half narrow(value);
        packed.append(reinterpret_cast<const char*>(&narrow), sizeof narrow);
      }
      blob.clear_data();
      blob.set_data_type(CAFFE_HALF);
      blob.set_packed_data(packed);
    }
  }
  const auto other = MakeNet(text, Cpu());
  other->CopyTrainedLayersFrom(proto);
  for (Net* one : {net.get(), other.get()}) {
    FillInputs(one);
    one->Forward();
  }
  EXPECT_EQ(Values(*other, "out"), Values(*net, "out"));
  const auto& blobs = other->LayerByName("block")->blobs();
  EXPECT_NE(PackedParameter::Of(*blobs[0]), nullptr);
  EXPECT_NE(PackedParameter::Of(*blobs[2]), nullptr);
}

TEST(NestedNetTest, ABlockInABlock) {
  BlockTexts()["inner"] = TwoProducts();
  BlockTexts()["outer"] = {InnerProductText("first", "x", 5) +
                               BlockLayer("inner", {"first"}, {"y"}) + ReluText("relu", "y"),
                           {"x"},
                           {"y"}};
  const auto net = MakeNet(InputText("data", {3, 5}) + InputText("target", {3, 4}) +
                               BlockLayer("outer", {"data"}, {"out"}) + Loss("out"),
                           Cpu(), 0);
  EXPECT_EQ(net->layer_names(), Names({"data", "target", "outer", "loss"}));
  EXPECT_EQ(net->LayerByName("outer")->blobs().size(), 6u);
  FillInputs(net.get());
  net->ForwardBackward();
  for (const BlobBase* blob : net->learnable_params()) EXPECT_GT(blob->asum_diff(), 0);
  const auto& outer = dynamic_cast<const TestBlock&>(*net->LayerByName("outer"));
  EXPECT_EQ(outer.names, Names({"outer/first", "outer/inner/relu", "outer/inner/a", "outer/inner/b",
                                "outer/inner/sum", "outer/inner", "outer/relu"}));
}

// Several tops, one of which no layer reads; an input that is an output; a bottom without gradient.
TEST(NestedNetTest, SeveralTops) {
  BlockTexts()["block"] = {
      InnerProductText("a", "x", 4) +
          "layer { name: 'times' type: 'Eltwise' bottom: 'a' bottom: 'y' top: 'times' "
          "eltwise_param { operation: PROD } } ",
      {"x", "y"},
      {"times", "a", "y"}};
  const auto net =
      MakeNet(InputText("data", {3, 5}) + InputText("target", {3, 4}) +
                  InnerProductText("ip", "data", 5) + InnerProductText("factor", "data", 4) +
                  BlockLayer("block", {"ip", "factor"}, {"t", "u", "v"}) + Loss("t"),
              Cpu(), 0);
  FillInputs(net.get());
  net->ForwardBackward();
  EXPECT_EQ(Values(*net, "v"), Values(*net, "factor"));
  EXPECT_GT(net->LayerByName("ip")->blobs()[0]->asum_diff(), 0);
  EXPECT_EQ(net->LayerByName("factor")->blobs()[0]->asum_diff(), 0);
  const std::vector<double> t = Values(*net, "t"), u = Values(*net, "u"), v = Values(*net, "v");
  for (size_t i = 0; i < t.size(); ++i) EXPECT_FLOAT_EQ(t[i], u[i] * v[i]);
}

// Random numbers of a nested layer: in run states, and the same when the layer runs again.
// The second Dropout of one name continues with its own random numbers.
TEST(NestedNetTest, RunStatesOfLayersOfOneName) {
  const auto text = [](const std::string& bottom) {
    return "layer { name: 'drop' type: 'Dropout' bottom: '" + bottom + "' top: '" + bottom +
           "2' dropout_param { dropout_ratio: 0.5 } } ";
  };
  const std::string net_text = InputText("data", {200}) + text("data") + text("data2");
  const auto net = MakeNet(net_text, Runtime::Get().cpu(), TRAIN);
  NetOptions options;
  options.device = Runtime::Get().cpu();
  options.phase = TRAIN;
  options.seed = 2;
  Net other(ParseNet(net_text), options);
  NetRunState state;
  FillInputs(net.get());
  FillInputs(&other);
  net->Forward();
  net->WriteRunState(&state);
  other.ReadRunState(state);
  net->Forward();
  other.Forward();
  EXPECT_EQ(Values(other, "data22"), Values(*net, "data22"));
}

TEST(NestedNetTest, RunStatesAndRecompute) {
  std::vector<std::vector<double>> results;
  for (const std::string more : {"", "recompute: true"}) {
    BlockTexts()["block"] = {
        InnerProductText("a", "x", 4) +
            "layer { name: 'drop' type: 'Dropout' bottom: 'a' top: 'dropped' } "
            "layer { name: 'tanh' type: 'TanH' bottom: 'dropped' top: 'tanh' } " +
            InnerProductText("b", "tanh", 4),
        {"x"},
        {"b"}};
    const auto net = MakeNet(InputText("data", {3, 5}) + InputText("target", {3, 4}) +
                                 BlockLayer("block", {"data"}, {"out"}, more) + Loss("out"),
                             Cpu(), 0);
    FillInputs(net.get());
    net->set_frees_memory(true);
    net->ForwardBackward();
    NetRunState state;
    net->WriteRunState(&state);
    std::vector<std::vector<double>> losses;
    for (const bool restored : {false, true}) {
      if (restored) net->ReadRunState(state);
      net->ClearParamDiffs();
      net->ForwardBackward();
      losses.push_back(Values(*net, "loss"));
      results.push_back(Diffs(*net));
    }
    EXPECT_EQ(losses[0], losses[1]);
    net->ForwardBackward();
    EXPECT_NE(Values(*net, "loss"), losses[0]);
  }
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

TEST(NestedNetTest, PropagateDownOfTheLayer) {
  for (const bool down : {true, false}) {
    const auto net =
        MakeNet(Nested(down ? "propagate_down: true" : "propagate_down: false"), Cpu(), 0);
    FillInputs(net.get());
    net->ForwardBackward();
    EXPECT_EQ(net->LayerByName("ip")->blobs()[0]->asum_diff() > 0, down);
    EXPECT_GT(net->LayerByName("block")->blobs()[0]->asum_diff(), 0);
  }
  EXPECT_NE(MessageOf([] {
              MakeNet(Nested("propagate_down: true propagate_down: true"), Cpu(), 0);
            }).find("propagate_down has 2 entries for 1 bottoms"),
            std::string::npos);
}

TEST(NestedNetTest, TypesOfTheLayer) {
  for (const DataType type : {kHalf, kBfloat16, kDouble}) {
    const std::string proto = DataTypeProto_Name(static_cast<DataTypeProto>(type.info().proto));
    const auto net = MakeNet(Nested("compute_data_type: " + proto), Cpu());
    FillInputs(net.get());
    net->Forward();
    EXPECT_EQ(net->BlobByName("out")->type(), type);
    for (const StepInfo& step : net->Steps()) {
      if (step.name().rfind("block/a", 0) == 0) {
        EXPECT_EQ(step.types.compute, type);
      }
    }
    const auto flat = MakeNet(Flat(), Cpu());
    CopyParameters(*net, flat.get());
    FillInputs(flat.get());
    flat->Forward();
    ExpectNear(Values(*net, "out"), Values(*flat, "out"),
               std::max(Tolerance(type), Tolerance(kFloat)), "out");
  }
}

// A nested layer has types of its own.
TEST(NestedNetTest, TypesOfNestedLayers) {
  BlockTexts()["block"] = {InnerProductText("a", "x", 4, "compute_data_type: CAFFE_HALF") +
                               InnerProductText("b", "a", 4),
                           {"x"},
                           {"b"}};
  const auto net =
      MakeNet(InputText("data", {3, 5}) + BlockLayer("block", {"data"}, {"out"}), Cpu());
  FillInputs(net.get());
  net->Forward();
  EXPECT_EQ(net->BlobByName("out")->type(), kFloat);
  bool half = false;
  for (const StepInfo& step : net->Steps()) half = half || step.types.compute == kHalf;
  EXPECT_TRUE(half);
}

TEST(NestedNetTest, MovesBetweenDevices) {
  for (Device* device : TestDevices()) {
    const auto net = MakeNet(Nested(), Cpu());
    FillInputs(net.get());
    net->Forward();
    const std::vector<double> out = Values(*net, "out");
    net->SetDevice(device);
    net->Forward();
    ExpectNear(Values(*net, "out"), out, Tolerance(kFloat), "out");
    EXPECT_EQ(net->LayerByName("block")->blobs()[3]->device(), device);
  }
}

TEST(NestedNetTest, BatchSizeMayChange) {
  const auto net = MakeNet(Nested(), Cpu());
  net->BlobByName("data")->Reshape({7, 5});
  net->BlobByName("target")->Reshape({7, 4});
  FillInputs(net.get());
  net->Forward();
  EXPECT_EQ(net->BlobByName("out")->shape(), Shape({7, 4}));
}

TEST(NestedNetTest, RangesOfNestedBlobsAreObserved) {
  const auto net = MakeNet(Nested(), Cpu());
  FillInputs(net.get());
  net->set_observe(true);
  net->Forward();
  net->set_observe(false);
  const auto ranges = net->Ranges();
  EXPECT_TRUE(ranges.count("block/a"));
  EXPECT_TRUE(ranges.count("block/sum"));
  NetParameter trained;
  net->ToProto(&trained);
  // In codes, with the ranges that were observed.
  const auto codes = MakeNet("data_type: CAFFE_INT8_QUANTIZED " + Nested(), Cpu());
  codes->CopyTrainedLayersFrom(trained);
  FillInputs(codes.get());
  codes->Forward();
  EXPECT_EQ(codes->BlobByName("out")->type(), kQuant8);
  net->Forward();
  EXPECT_NEAR(Values(*codes, "loss")[0], Values(*net, "loss")[0], 0.05);
}

TEST(NestedNetTest, ErrorsNameTheLayer) {
  RegisterTestBlock();
  LayerParameter parameter;
  parameter.set_name("alone");
  parameter.set_type("TestBlock");
  LayerContext context;
  context.device = Cpu();
  const auto layer = LayerRegistry::Get().Create(parameter, context);
  Blob<float> x(Cpu(), {2, 3}), y(Cpu(), {2, 3});
  EXPECT_NE(MessageOf([&] {
              layer->Forward({&x}, {&y});
            }).find("alone (TestBlock): other layers compute this one"),
            std::string::npos);
  BlockTexts()["block"] = {InnerProductText("a", "z", 4), {"x"}, {"a"}};
  const std::string text = InputText("data", {3, 5}) + BlockLayer("block", {"data"}, {"out"});
  EXPECT_NE(MessageOf([&] { MakeNet(text, Cpu()); }).find("block (TestBlock): Unknown bottom blob"),
            std::string::npos);
  BlockTexts()["block"].net = InnerProductText("a", "x", 0);
  EXPECT_NE(MessageOf([&] { MakeNet(text, Cpu()); }).find("block/a (InnerProduct): num_output"),
            std::string::npos);
  BlockTexts()["block"] = TwoProducts();
  BlockTexts()["block"].parameters = {{"a", 0}};
  EXPECT_NE(MessageOf([&] {
              MakeNet(text, Cpu());
            }).find("block (TestBlock): its parameters do not contain blob 1 of layer 'block/a'"),
            std::string::npos);
  const std::string twice = InputText("block/a", {3, 5}) + text;
  EXPECT_NE(MessageOf([&] { MakeNet(twice, Cpu()); }).find("Top blob 'block/a' produced by"),
            std::string::npos);
}

}  // namespace
}  // namespace caffe

// The memory that a net holds on its device: what it predicts, and less than a blob each.
#include "caffe/io/proto_io.hpp"
#include "caffe/net/plan.hpp"
#include "caffe/solver/solver.hpp"
#include "net/layer_text.hpp"
#include "net/net_support.hpp"
#include "net/training_support.hpp"
#include "support/devices.hpp"
#include "support/graphs_off.hpp"
#include "support/keeping_device.hpp"

namespace caffe {
namespace {

std::string ConvText(const std::string& name, const std::string& bottom, int outputs,
                     const std::string& more = "", int kernel = 3) {
  return Concat("layer { name: '", name, "' type: 'Convolution' bottom: '", bottom, "' top: '",
                name, "' ", more, " convolution_param { num_output: ", outputs,
                " kernel_size: ", kernel, " pad: ", kernel / 2,
                " weight_filler { type: 'xavier' } } } ");
}

std::string InPlaceText(const std::string& type, const std::string& name, const std::string& blob,
                        const std::string& more = "") {
  return Concat("layer { name: '", name, "' type: '", type, "' bottom: '", blob, "' top: '", blob,
                "' ", more, " } ");
}

// Convolutions with BatchNorm and Scale in place, and a sum; `more` in all layers but the last two,
// whose top is `name`.
std::string BlockText(const std::string& name, const std::string& bottom, int channels,
                      const std::string& more) {
  std::string text, last = bottom;
  for (const char* part : {"_a", "_b", "_c"}) {
    const std::string conv = name + part;
    text += ConvText(conv, last, channels, more) +
            InPlaceText("BatchNorm", conv + "_bn", conv, more) +
            InPlaceText("Scale", conv + "_scale", conv, more + " scale_param { bias_term: true }");
    if (part[1] != 'c') text += InPlaceText("ReLU", conv + "_relu", conv, more);
    last = conv;
  }
  return text + "layer { name: '" + name + "' type: 'Eltwise' bottom: '" + bottom + "' bottom: '" +
         last + "' top: '" + name + "' } " + InPlaceText("ReLU", name + "_relu", name);
}

std::string LossText(const std::string& bottom) {
  return InnerProductText("ip", bottom, 10) +
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' } ";
}

// A small ResNet. `more` is a setting of the layers in its blocks.
std::string ResNetText(const std::string& more = "", int batch = 8) {
  return InputText("data", {batch, 3, 24, 24}) + InputText("label", {batch}) +
         ConvText("conv1", "data", 16) + InPlaceText("BatchNorm", "bn1", "conv1") +
         InPlaceText("Scale", "scale1", "conv1", "scale_param { bias_term: true }") +
         InPlaceText("ReLU", "relu1", "conv1") + BlockText("block1", "conv1", 16, more) +
         BlockText("block2", "block1", 16, more) + BlockText("block3", "block2", 16, more) +
         "layer { name: 'pool' type: 'Pooling' bottom: 'block3' top: 'pool' pooling_param { pool: "
         "AVE global_pooling: true } } " +
         LossText("pool");
}

// A ResNet without steps of several layers, which round less often than their layers one by one:
// training_steps_test.cpp compares these.
std::string SingleStepsText() {
  std::string text = ResNetText();
  const std::string bias = "bias_term: true";
  for (size_t at = text.find(bias); at != std::string::npos; at = text.find(bias, at)) {
    text.replace(at, bias.size(), "bias_term: false");
  }
  return text;
}

// A layer of each kind whose data or arrays live until the backward pass.
std::string MixedText(const std::string& more = "") {
  return InputText("data", {4, 3, 16, 16}) + InputText("label", {4}) +
         ConvText("conv1", "data", 8, more) + InPlaceText("PReLU", "prelu", "conv1", more) +
         "layer { name: 'pool1' type: 'Pooling' bottom: 'conv1' top: 'pool1' " + more +
         " pooling_param { kernel_size: 2 stride: 2 } } " +
         "layer { name: 'norm' type: 'LRN' bottom: 'pool1' top: 'norm' " + more + " } " +
         InPlaceText("Dropout", "drop1", "norm", more) + ConvText("left", "norm", 8, more) +
         ConvText("right", "norm", 8, more) + InPlaceText("TanH", "tanh", "left", more) +
         "layer { name: 'max' type: 'Eltwise' bottom: 'left' bottom: 'right' top: 'max' " + more +
         " eltwise_param { operation: MAX } } " +
         "layer { name: 'concat' type: 'Concat' bottom: 'max' bottom: 'norm' top: 'concat' } " +
         "layer { name: 'drop2' type: 'Dropout' bottom: 'concat' top: 'drop2' " + more + " } " +
         "layer { name: 'flat' type: 'Flatten' bottom: 'drop2' top: 'flat' } " + LossText("flat");
}

// A model of models/ with inputs instead of its layers that read files.
std::string ModelText(const std::string& file, const Shape& images) {
  NetParameter net, given;
  ReadTextProto(Concat(CAFFE_SOURCE_DIR, "/models/", file), &given);
  ParseTextProto(InputText("data", images) + InputText("label", {images[0]}), "inputs", &net);
  for (const LayerParameter& layer : given.layer()) {
    if (layer.type() != "Data" && layer.type() != "Input") *net.add_layer() = layer;
  }
  return net.DebugString();
}

class MemoryUseTest : public testing::TestWithParam<DeviceType> {
 protected:
  std::unique_ptr<Solver> Train(const std::string& net, const std::string& more = "",
                                Device* device = nullptr) const {
    SolverParameter parameter;
    ParseTextProto(
        "base_lr: 0.01 momentum: 0.9 lr_policy: 'fixed' random_seed: 5 "
        "snapshot_after_train: false loss_scale: 1 " +
            more,
        "test", &parameter);
    ParseTextProto(TypeText(GetParam().type) + net, "net", parameter.mutable_net_param());
    auto solver = std::make_unique<Solver>(parameter, device ? device : device_);
    solver->set_frees_memory(true);
    FillInputs(solver->net());
    return solver;
  }
  static Numbers Weights(Solver& solver) {
    Numbers all;
    for (BlobBase* blob : solver.net()->learnable_params()) {
      const Numbers values = blob->DataAsDouble();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
  // `bits`: nothing may differ; otherwise a part of the whole, after some updates.
  static void ExpectSame(const Numbers& own, const Numbers& expected, bool bits,
                         const std::string& what) {
    if (bits) {
      EXPECT_EQ(own, expected) << what;
      return;
    }
    ASSERT_EQ(own.size(), expected.size()) << what;
    const double norm = Distance(expected, Numbers(expected.size()));
    EXPECT_LT(Distance(own, expected), (0.1 + 5 * Tolerance(GetParam().type)) * norm) << what;
  }
  Device* const device_ = GetParam().device;
  int64_t launches_ = 0;
};

TEST_P(MemoryUseTest, TrainingInTheArenaComputesTheSameBits) {
  const GraphsOff launched;  // the observer would switch replays off, too
  for (const std::string& net : {SingleStepsText(), MixedText()}) {
    const auto planned = Train(net), apart = Train(net);
    Looks looks;
    apart->net()->AddObserver(&looks);
    planned->Step(4);
    apart->Step(4);
    apart->net()->RemoveObserver(&looks);
    const bool bits = InCOrder(planned->net());
    ExpectSame(Weights(*planned), Weights(*apart), bits, "weights");
    planned->net()->Forward();
    apart->net()->Forward();
    ExpectSame({planned->net()->Loss()}, {apart->net()->Loss()}, bits, "loss");
    // No layer reads data that it does not declare, which would be computed again.
    for (Solver* solver : {planned.get(), apart.get()}) {
      if (solver == apart.get()) solver->net()->AddObserver(&looks);
      solver->Step(1);
      device_->ResetCounters();
      solver->Step(1);
      if (solver == apart.get()) solver->net()->RemoveObserver(&looks);
      if (solver == planned.get()) {
        EXPECT_EQ(device_->counters().allocations, 0);
        launches_ = device_->counters().launches;
      } else if (bits) {
        EXPECT_EQ(device_->counters().launches, launches_);
      }
    }
  }
}

TEST_P(MemoryUseTest, RecomputedLayersComputeTheSameBits) {
  const std::string recompute = "recompute: true";
  for (const bool mixed : {false, true}) {
    const auto text = [mixed](const std::string& more) {
      return mixed ? MixedText(more) : ResNetText(more);
    };
    const auto again = Train(text(recompute)), kept = Train(text(""));
    again->Step(4);
    kept->Step(4);
    // Layers that run again do so in C order.
    ExpectSame(Weights(*again), Weights(*kept), InCOrder(kept->net()), Concat("mixed: ", mixed));
    if (mixed) continue;
    const MemoryNeeds less = again->net()->memory_needs(), more = kept->net()->memory_needs();
    EXPECT_LT(less.data + less.diffs, (more.data + more.diffs) * 2 / 3);
  }
}

// The allocator counts what the net states before. Not counted: arrays of a few KiB, such as the
// sums of a BatchNorm, and that the allocator rounds sizes up, by less than 1 %. So the nets are
// not tiny.
TEST_P(MemoryUseTest, TheAllocatorAgreesWithThePrediction) {
  std::vector<std::string> texts = {ResNetText("", 160), ResNetText("recompute: true", 96),
                                    ModelText("lenet/lenet_train_test.prototxt", {512, 1, 28, 28}),
                                    ModelText("squeezenet/train_val.prototxt", {4, 3, 227, 227})};
  // The others are as float and half. A driver that compiles slowly has the nets with few programs.
  if (GetParam().type != kFloat && GetParam().type != kHalf) return;
  if (CompilesSlowly(*device_)) texts = {texts[1], texts[2]};
  for (const std::string& text : texts) {
    {
      device_->ReleaseCache();  // a larger buffer would be taken from it
      const int64_t before = device_->bytes_in_use();
      const auto net = MakeNet(TypeText(GetParam().type) + text, device_);
      FillInputs(net.get());
      const MemoryNeeds needs = net->memory_needs();
      net->Forward();
      const double used = static_cast<double>(device_->bytes_in_use() - before);
      EXPECT_NEAR(used, static_cast<double>(needs.total()),
                  0.02 * static_cast<double>(needs.total()))
          << needs.ToString();
    }
    device_->ReleaseCache();
    const int64_t before = device_->bytes_in_use();
    const auto solver = Train(text);
    const MemoryNeeds needs = solver->net()->memory_needs();
    const double total = static_cast<double>(needs.total() + solver->history_bytes());
    solver->Step(1);  // where libraries are compared, with arrays of their own
    device_->ReleaseCache();
    device_->ResetPeak();
    solver->Step(1);
    const double used = static_cast<double>(device_->bytes_peak() - before);
    EXPECT_NEAR(used, total, 0.02 * total) << needs.ToString() << "; after the first iteration "
                                           << solver->net()->memory_needs().ToString();
  }
}

// On the CPU, too, where convolutions widen images of half kinds: a few of them at a time.
TEST_P(MemoryUseTest, HalfKindsNeedLessThanFloat) {
  if (GetParam().type != kHalf && GetParam().type != kBfloat16) return;
  for (const char* file : {"squeezenet/train_val.prototxt", "mobilenet_v1/deploy.prototxt"}) {
    const std::string text = ModelText(file, {10, 3, 224, 224});
    const auto total = [&](DataType type) {
      return MakeNet(TypeText(type) + text, device_)->memory_needs().total();
    };
    EXPECT_LT(static_cast<double>(total(GetParam().type)), 0.8 * static_cast<double>(total(kFloat)))
        << file;
  }
}

// Partial sums per channel have more parts on a device with more compute units. Layers take them
// from the workspace in turn.
TEST_P(MemoryUseTest, ManyComputeUnitsAgreeWithThePrediction) {
  if (GetParam().type != kFloat || device_->host_accessible()) return;
  DeviceInfo info = device_->info();
  info.compute_units = 132;
  KeepingDevice device(device_, info);
  const int64_t before = device.bytes_in_use();
  const auto solver = Train(ResNetText("", 24), "", &device);
  const MemoryNeeds needs = solver->net()->memory_needs();
  const double total = static_cast<double>(needs.total() + solver->history_bytes());
  device.ResetPeak();
  solver->Step(1);
  EXPECT_NEAR(static_cast<double>(device.bytes_peak() - before), total, 0.02 * total)
      << needs.ToString();
  EXPECT_EQ(solver->net()->memory_needs().workspace, needs.workspace) << "a pass needed more";
}

TEST_P(MemoryUseTest, ReadingWhatTrainingFreed) {
  const auto solver = Train(SingleStepsText());
  Net& net = *solver->net();
  solver->Step(1);
  EXPECT_FALSE(net.BlobByName("block1_a")->data_memory()->stored());
  std::string message = MessageOf([&] { Values(net, "block1_a"); });
  for (const char* part :
       {"blob block1_a", "the parameters have changed", "net.keep('block1_a')"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  message = MessageOf([&] { net.BlobByName("block2")->DiffAsDouble(); });
  EXPECT_NE(message.find("the gradient of blob block2"), std::string::npos) << message;
  EXPECT_NE(message.find("net.keep('block2')"), std::string::npos) << message;
  // Inputs and losses are kept.
  EXPECT_EQ(Values(net, "loss").size(), 1u);
  EXPECT_EQ(Values(net, "data").size(), 8u * 3 * 24 * 24);
  // A pass of the user's own stores everything.
  const auto other = Train(SingleStepsText());
  Looks looks;
  other->net()->AddObserver(&looks);
  other->Step(1);
  for (Net* each : {&net, other->net()}) {
    each->Forward();
    each->ClearParamDiffs();
    each->Backward();
  }
  const bool bits = InCOrder(&net);
  for (const char* blob : {"block1_a", "block2", "conv1", "pool"}) {
    ExpectSame(Values(net, blob), Values(*other->net(), blob), bits, blob);
    ExpectSame(net.BlobByName(blob)->DiffAsDouble(), other->net()->BlobByName(blob)->DiffAsDouble(),
               bits, blob);
  }
}

TEST_P(MemoryUseTest, KeptAndViewedBlobsSurviveTraining) {
  const auto planned = Train(SingleStepsText()), apart = Train(SingleStepsText());
  Looks looks;
  apart->net()->AddObserver(&looks);
  planned->net()->Keep({"block1", "block2_b"});
  const auto view = planned->net()->BlobByName("conv1")->data_memory()->View();
  const auto diff = planned->net()->BlobByName("block3")->diff_memory()->View();
  const bool bits = InCOrder(planned->net());
  for (int i = 0; i < 2; ++i) {
    planned->Step(1);
    apart->Step(1);
    for (const char* blob : {"block1", "block2_b", "conv1"}) {
      ExpectSame(Values(*planned->net(), blob), Values(*apart->net(), blob), bits, blob);
    }
    for (const char* blob : {"block1", "block2_b", "block3"}) {
      ExpectSame(planned->net()->BlobByName(blob)->DiffAsDouble(),
                 apart->net()->BlobByName(blob)->DiffAsDouble(), bits, blob);
    }
  }
}

// A blob that is read after each forward is computed twice only in the first ones.
TEST_P(MemoryUseTest, ABlobThatIsReadAgainAndAgainIsStored) {
  const GraphsOff off;  // the launches of layers are counted
  const auto net = MakeNet(TypeText(GetParam().type) + MixedText(), device_);
  FillInputs(net.get());
  net->Forward();
  device_->ResetCounters();
  net->Forward();
  const int64_t launches = device_->counters().launches;
  const int conversions = net->plan().conversions();
  std::string freed;
  for (const std::string& blob : net->blob_names()) {
    if (!net->BlobByName(blob)->data_memory()->stored()) freed = blob;
  }
  ASSERT_NE(freed, "");
  const Numbers values = Values(*net, freed);
  for (int i = 0; i < 2; ++i) {
    net->Forward();
    EXPECT_EQ(Values(*net, freed), values);
  }
  net->Forward();
  device_->ResetCounters();
  net->Forward();
  EXPECT_EQ(Values(*net, freed), values);
  // A blob in NHWC is also converted.
  EXPECT_EQ(device_->counters().launches, launches + net->plan().conversions() - conversions);
  EXPECT_EQ(device_->counters().allocations, 0);
}

// Without the arena every blob is stored.
TEST_P(MemoryUseTest, ReducedMemoryInferenceFalseKeepsEveryBlob) {
  const auto apart = MakeNet(
      TypeText(GetParam().type) + "reduced_memory_inference: false " + MixedText(), device_);
  const auto net = MakeNet(TypeText(GetParam().type) + MixedText(), device_);
  FillInputs(apart.get());
  FillInputs(net.get());
  apart->Forward();
  net->Forward();
  EXPECT_LT(net->memory_needs().data, apart->memory_needs().data * 2 / 3);
  for (const std::string& blob : net->blob_names()) {
    EXPECT_EQ(Values(*net, blob), Values(*apart, blob)) << blob;
  }
}

INSTANTIATE_TEST_SUITE_P(All, MemoryUseTest, testing::ValuesIn(DevicesAndFloatsOfNets()),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

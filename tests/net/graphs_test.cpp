// Steps of a plan that are recorded once and replayed. What is recorded, and when, is tested on a
// device that runs nothing; values are tested on devices that can record.
#include "caffe/core/log.hpp"
#include "caffe/device/null_device.hpp"
#include "caffe/net/pass_observer.hpp"
#include "caffe/net/run/graph_epoch.hpp"
#include "net/layer_text.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"
#include "support/graphs_off.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

int EndOf(GraphEpoch* epoch, std::vector<uint64_t> values, DevicePtr pointer) {
  epoch->Begin();
  for (uint64_t value : values) epoch->Add(value);
  epoch->Add(pointer);
  return epoch->End();
}

TEST(GraphEpochTest, CountsEqualStatesInARow) {
  char memory[8];
  const DevicePtr a{memory, 0}, b{memory, 4};
  GraphEpoch epoch;
  EXPECT_EQ(EndOf(&epoch, {1, 2}, a), 0);
  EXPECT_EQ(EndOf(&epoch, {1, 2}, a), 1);
  EXPECT_EQ(EndOf(&epoch, {1, 2}, a.ReadOnly()), 2);
  EXPECT_EQ(EndOf(&epoch, {1, 2}, b), 0);  // another address
  EXPECT_EQ(EndOf(&epoch, {1, 2}, b), 1);
  EXPECT_EQ(EndOf(&epoch, {1, 3}, b), 0);  // another number
  EXPECT_EQ(EndOf(&epoch, {1}, b), 0);     // fewer
  EXPECT_EQ(EndOf(&epoch, {1}, b), 1);
}

TEST(GraphEpochTest, StatesWithoutMemoryAreNeverEqual) {
  GraphEpoch epoch;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(EndOf(&epoch, {1}, {}), 0);
}

// Its graphs count their launches and run nothing.
class RecordingDevice final : public NullDevice {
 public:
  bool can_capture() const override { return true; }
  int recorded = 0, abandoned = 0;
  bool refuses = false;

 protected:
  Stream* DoBeginCapture() override { return default_stream(); }
  std::unique_ptr<Graph> DoEndCapture(bool keep) override {
    if (!keep) {
      ++abandoned;
      return nullptr;
    }
    CAFFE_CHECK(!refuses, "refused");
    ++recorded;
    class Nothing final : public Graph {
      void DoLaunch() override {}
    };
    return std::make_unique<Nothing>();
  }
};

TEST(CaptureTest, OnlyWorkOnTheDeviceIsRecorded) {
  RecordingDevice device;
  const DevicePtr buffer = device.Allocate(16, "test");
  char bytes[16] = {};
  {
    Capture capture(&device);
    EXPECT_EQ(Capture::Of(&device), &capture);
    device.Fill(buffer, 1, 16);
    EXPECT_NE(MessageOf([&] { device.Upload(buffer, bytes, 16); }).find("Upload"),
              std::string::npos);
    EXPECT_THROW(device.Download(bytes, buffer, 16), Error);
    EXPECT_THROW(device.Allocate(16, "test"), Error);
    EXPECT_THROW(device.Synchronize(), Error);
    EXPECT_THROW(device.RecordEvent(), Error);
    EXPECT_THROW(Capture second(&device), Error);
  }
  EXPECT_EQ(device.abandoned, 1);
  EXPECT_EQ(Capture::Of(&device), nullptr);
  EXPECT_FALSE(device.tracks_use());
  device.Upload(buffer, bytes, 16);
  device.Free(buffer);
}

TEST(CaptureTest, DevicesThatCannotRecordRefuse) {
  NullDevice device;
  EXPECT_THROW(Capture capture(&device), Error);
}

TEST(CaptureTest, AGraphEndsWithItsBuffers) {
  RecordingDevice device;
  const DevicePtr used = device.Allocate(1000, "used"), other = device.Allocate(9000, "other");
  std::unique_ptr<Graph> graph;
  {
    Capture capture(&device);
    device.Fill(used, 1, 16);
    graph = capture.End();
  }
  graph->Launch();
  EXPECT_EQ(device.counters().launches, 1);
  EXPECT_EQ(device.counters().graph_launches, 1);
  device.Free(other);
  EXPECT_TRUE(graph->valid());
  device.Free(used);
  const DevicePtr again = device.Allocate(1000, "the same memory");
  EXPECT_EQ(again, used);
  EXPECT_FALSE(graph->valid());
  EXPECT_THROW(graph->Launch(), Error);
  device.Free(again);
}

// A stream that launches a graph waits for other streams that use the graph's buffers.
TEST(CaptureTest, ALaunchWaitsForOtherStreams) {
  RecordingDevice device;
  const DevicePtr buffer = device.Allocate(16, "test");
  std::unique_ptr<Graph> graph;
  {
    Capture capture(&device);
    device.Fill(buffer, 1, 16);
    graph = capture.End();
  }
  const std::unique_ptr<Stream> stream = device.CreateStream();
  {
    const StreamScope scope(&device, stream.get());
    device.Fill(buffer, 2, 16);
  }
  const int64_t waits = device.counters().stream_waits;
  graph->Launch();
  EXPECT_EQ(device.counters().stream_waits, waits + 1);
  device.Free(buffer);
}

std::string ConvText(const std::string& name, const std::string& bottom, int outputs) {
  return LayerText("Convolution", name, {bottom}, name,
                   Concat("convolution_param { num_output: ", outputs,
                          " kernel_size: 3 pad: 1 weight_filler { type: 'uniform' min: -0.4 "
                          "max: 0.4 } bias_filler { type: 'constant' value: 0.1 } }"));
}

// A chain with fused steps, a branch, and a sum; every layer can be replayed.
std::string BranchesText() {
  return InputText("data", {2, 3, 12, 10}) + ConvText("conv1", "data", 5) +
         LayerText("ReLU", "relu1", {"conv1"}, "relu1") +
         LayerText("LRN", "norm1", {"relu1"}, "norm1", "lrn_param { local_size: 3 alpha: 0.5 }") +
         LayerText("Pooling", "pool1", {"norm1"}, "pool1",
                   "pooling_param { kernel_size: 3 stride: 2 }") +
         ConvText("left", "pool1", 5) + ConvText("right", "pool1", 4) +
         LayerText("Concat", "concat", {"left", "right"}, "concat") +
         ConvText("conv2", "concat", 9) + LayerText("Eltwise", "sum", {"conv2", "concat"}, "sum") +
         LayerText("Flatten", "flat", {"sum"}, "flat") + InnerProductText("ip", "flat", 3) +
         LayerText("Softmax", "prob", {"ip"}, "prob");
}

// Launches, and launches of graphs, in a forward with new input.
struct Launches {
  int64_t all = 0, graphs = 0;
  bool operator==(const Launches&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const Launches& l) {
    return out << l.all << " launches, " << l.graphs << " of graphs";
  }
};
constexpr Launches kOneGraph{1, 1};

Launches Forward(Net* net, Device* device, uint64_t seed = 3) {
  FillInputs(net, seed);
  device->ResetCounters();
  net->Forward();
  return {device->counters().launches, device->counters().graph_launches};
}

class RecordedNetTest : public testing::Test {
 protected:
  void SetUp() override {
    net_ = MakeNet(BranchesText(), &device_);
    for (int i = 0; i < 3; ++i) Forward(net_.get(), &device_);
    ASSERT_EQ(device_.recorded, 1);
    ASSERT_EQ(Launched(), kOneGraph);
  }
  Launches Launched() { return Forward(net_.get(), &device_); }
  // The next forward runs normally, a later one is recorded, and the following are replayed.
  void ExpectRecordedAgain() {
    EXPECT_EQ(Launched().graphs, 0);
    for (int i = 0; i < 2; ++i) Launched();
    EXPECT_EQ(device_.recorded, 2);
    EXPECT_EQ(Launched(), kOneGraph);
  }

  RecordingDevice device_;
  std::unique_ptr<Net> net_;
};

TEST_F(RecordedNetTest, AWarmForwardIsOneLaunchAndOneUpload) {
  const uint64_t version = net_->BlobByName("prob")->data_version();
  EXPECT_EQ(Launched(), kOneGraph);
  const DeviceCounters counters = device_.counters();
  EXPECT_EQ(counters.uploads, 1);
  EXPECT_EQ(counters.allocations, 0);
  EXPECT_EQ(counters.syncs, 0);
  EXPECT_EQ(counters.builds, 0);
  EXPECT_NE(net_->BlobByName("prob")->data_version(), version);
  EXPECT_EQ(device_.recorded, 1);
  net_->BlobByName("prob")->host_data();  // from the device
  EXPECT_EQ(device_.counters().downloads, 1);
}

TEST_F(RecordedNetTest, AnotherShapeIsRecordedAgain) {
  net_->input_blobs()[0]->Reshape({4, 3, 12, 10});
  ExpectRecordedAgain();
}

TEST_F(RecordedNetTest, ChangedParametersAreRecordedAgain) {
  BlobBase& weights = *net_->LayerByName("conv2")->blobs()[0];
  weights.SetData(std::vector<double>(weights.count(), 0.5));
  ExpectRecordedAgain();
}

TEST_F(RecordedNetTest, OtherMemoryIsRecordedAgain) {
  const auto other = MakeBlob(kFloat, &device_, net_->input_blobs()[0]->shape(), "other");
  net_->input_blobs()[0]->ShareData(*other);
  ExpectRecordedAgain();
}

TEST_F(RecordedNetTest, PartsOfAForwardDoNotUseTheGraph) {
  FillInputs(net_.get());
  device_.ResetCounters();
  net_->Forward(0, 3);
  EXPECT_EQ(device_.counters().graph_launches, 0);
  EXPECT_GT(device_.counters().launches, 0);
  for (int i = 0; i < 3; ++i) Launched();
  EXPECT_EQ(Launched(), kOneGraph);
}

TEST_F(RecordedNetTest, BlobsThatNoStepWroteAreComputedWhenTheyAreRead) {
  EXPECT_EQ(Launched(), kOneGraph);
  device_.ResetCounters();
  net_->BlobByName("conv1")->host_data();
  EXPECT_GT(device_.counters().launches, 0);
  EXPECT_EQ(Launched(), kOneGraph);
}

TEST_F(RecordedNetTest, ViewsOfOutputsStayCurrent) {
  const std::shared_ptr<void> view = net_->BlobByName("prob")->data_memory()->View();
  for (int i = 0; i < 3; ++i) Launched();
  EXPECT_EQ(Launched().graphs, 1);
  EXPECT_EQ(device_.counters().downloads, 1);
}

TEST(GraphsTest, ARefusedRecordRunsNormallyAndIsNotTriedAgain) {
  RecordingDevice device;
  device.refuses = true;
  const auto net = MakeNet(BranchesText(), &device);
  Forward(net.get(), &device);
  const Launches warm = Forward(net.get(), &device);
  EXPECT_EQ(Forward(net.get(), &device).graphs, 0);
  device.refuses = false;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Forward(net.get(), &device), warm);
  EXPECT_EQ(device.recorded, 0);
}

TEST(GraphsTest, LayersThatDoNotSayThatTheyCanBeReplayedRunNormally) {
  RecordingDevice device;
  const auto net =
      MakeNet(BranchesText() + LayerText("ArgMax", "argmax", {"prob"}, "argmax"), &device);
  for (int i = 0; i < 3; ++i) Forward(net.get(), &device);
  const Launches warm = Forward(net.get(), &device);
  EXPECT_EQ(warm.graphs, 1);
  EXPECT_GT(warm.all, 1);
}

TEST(GraphsTest, PhaseTrainIsNotRecorded) {
  RecordingDevice device;
  const auto net = MakeNet(BranchesText(), &device, TRAIN);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Forward(net.get(), &device).graphs, 0);
  EXPECT_EQ(device.recorded, 0);
}

// The debug lines of three passes of a net as `prepare` leaves it: iterations, or in phase TEST
// forwards.
template <class Prepare> std::string DebugLinesOf(Phase phase, const Prepare& prepare) {
  RecordingDevice device;
  const auto net = MakeNet(BranchesText(), &device, phase);
  [[maybe_unused]] const auto held = prepare(net.get());
  const log::Level before = log::level();
  log::SetLevel(log::Level::kDebug);
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) phase == TRAIN ? net->ForwardBackward() : net->Forward();
  log::SetLevel(before);
  return testing::internal::GetCapturedStderr();
}

TEST(GraphsTest, ADebugLineSaysOnceWhyPassesAreNotReplayed) {
  class StepTimer final : public PassObserver {
   public:
    const char* name() const override { return "a timer"; }
    bool per_layer() const override { return false; }
    bool per_step() const override { return true; }
  } timer;
  for (const Phase phase : {TRAIN, TEST}) {
    const std::string part =
        Concat(phase == TRAIN ? "iterations" : "forwards", " are not replayed as a graph: ");
    const auto expect_once = [&](const std::string& why, const auto& prepare) {
      const std::string log = DebugLinesOf(phase, prepare);
      EXPECT_TRUE(Holds(log, part + why)) << log;
      EXPECT_EQ(log.find(part), log.rfind(part)) << log;
    };
    expect_once("debug_info looks at every layer", [](Net* net) {
      net->set_debug_info(true);
      return 0;
    });
    expect_once("a callback of layers looks at every layer", [](Net* net) {
      net->set_after_forward([](int) {});
      return 0;
    });
    expect_once("a timer is called between all steps", [&](Net* net) {
      net->AddObserver(&timer);
      return 0;
    });
    EXPECT_FALSE(Holds(DebugLinesOf(phase, [](Net*) { return 0; }), part));
  }
  const auto view = [](Net* net) { return net->BlobByName("prob")->data_memory()->View(); };
  EXPECT_TRUE(Holds(DebugLinesOf(TRAIN, view), "there is a view of blob prob"));
}

TEST(GraphsTest, TheEnvironmentTurnsGraphsOff) {
  RecordingDevice device;
  const auto net = MakeNet(BranchesText(), &device);
  const GraphsOff off;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Forward(net.get(), &device).graphs, 0);
  EXPECT_EQ(device.recorded, 0);
}

// Values on devices that can record, beside a net that does not.
class GraphValuesTest : public testing::TestWithParam<DeviceType> {
 protected:
  void SetUp() override {
    if (!GetParam().device->can_capture()) GTEST_SKIP() << "this device cannot record work";
    net_ = Make();
    plain_ = Make();
    {
      const GraphsOff off;
      FillInputs(plain_.get());
      plain_->Forward();
    }
    for (uint64_t seed = 0; seed < 4; ++seed) ExpectEqual(seed);
    ExpectReplay();
  }
  static std::unique_ptr<Net> Make() {
    const auto [device, type] = GetParam();
    NetParameter parameter = ParseNet(BranchesText());
    parameter.set_data_type(static_cast<DataTypeProto>(type.info().proto));
    NetOptions options;
    options.device = device;
    options.phase = TEST;
    options.seed = 1701;
    return std::make_unique<Net>(parameter, options);
  }
  void ExpectEqual(uint64_t seed) {
    for (Net* net : {net_.get(), plain_.get()}) {
      FillInputs(net, seed);
      net->Forward();
    }
    EXPECT_EQ(Values(*net_, "prob"), Values(*plain_, "prob")) << "seed " << seed;
  }
  void ExpectReplay() {
    EXPECT_EQ(Forward(net_.get(), GetParam().device, 7).graphs, 1);
    EXPECT_EQ(Forward(plain_.get(), GetParam().device, 7).graphs, 0);
    EXPECT_EQ(Values(*net_, "prob"), Values(*plain_, "prob"));
  }
  void ExpectEqualAndReplayedAgain() {
    for (uint64_t seed = 10; seed < 14; ++seed) ExpectEqual(seed);
    ExpectReplay();
  }

  std::unique_ptr<Net> net_, plain_;
};

TEST_P(GraphValuesTest, Shapes) {
  for (Net* net : {net_.get(), plain_.get()}) net->input_blobs()[0]->Reshape({3, 3, 12, 10});
  ExpectEqualAndReplayedAgain();
}

TEST_P(GraphValuesTest, Parameters) {
  for (Net* net : {net_.get(), plain_.get()}) {
    BlobBase& weights = *net->LayerByName("conv2")->blobs()[0];
    weights.SetData(TestNumbers(weights.count(), 5));
  }
  ExpectEqualAndReplayedAgain();
}

TEST_P(GraphValuesTest, ReadsOfBlobsThatNoStepWrote) {
  for (const char* blob : {"conv1", "left", "conv2"}) {
    EXPECT_EQ(Values(*net_, blob), Values(*plain_, blob)) << blob;
  }
  ExpectEqualAndReplayedAgain();
}

TEST_P(GraphValuesTest, KeptViews) {
  const auto view = net_->BlobByName("prob")->data_memory()->View();
  ExpectEqualAndReplayedAgain();
}

TEST_P(GraphValuesTest, PartsOfAForward) {
  for (Net* net : {net_.get(), plain_.get()}) net->Forward(2, 5);
  ExpectEqualAndReplayedAgain();
}

TEST_P(GraphValuesTest, OtherStreams) {
  Device* const device = GetParam().device;
  const auto stream = device->CreateStream();
  {
    const StreamScope scope(device, stream.get());
    ExpectEqualAndReplayedAgain();
  }
  ExpectEqualAndReplayedAgain();
}

INSTANTIATE_TEST_SUITE_P(All, GraphValuesTest, testing::ValuesIn(DevicesAndTypes({kFloat, kHalf})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

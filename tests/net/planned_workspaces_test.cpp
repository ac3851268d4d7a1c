// Large workspaces of steps lie between the arrays of a forward, where few of these are alive.
#include <algorithm>

#include "caffe/core/error.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/multiplexer.hpp"
#include "caffe/memory/workspace.hpp"
#include "net/layer_text.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"
#include "support/scoped_variable.hpp"

namespace caffe {
namespace {

constexpr char kName[] = "spacious";
constexpr int kOutputs = 12;         // of the convolutions that this library computes
constexpr int64_t kRoom = 96 << 20;  // bytes of workspace that they overwrite

// Overwrites its workspace before it computes.
class SpaciousConv final : public ConvOp {
 public:
  SpaciousConv(Device* device, const ConvDescriptor& d)
      : ConvOp(d),
        device_(device),
        op_(Multiplexer::ConvolutionBy(device->host_accessible() ? "native" : "generated", device,
                                       d)) {}
  const char* library() const override { return kName; }
  int64_t workspace_bytes() const override { return kRoom + op_->workspace_bytes(); }
  int64_t prepared_bytes() const override { return op_->prepared_bytes(); }
  void Prepare(DevicePtr weights, DevicePtr prepared) override { op_->Prepare(weights, prepared); }

 protected:
  void DoForward(const ConvArguments& arguments) override {
    CheckWorkspace(arguments.workspace);
    device_->Fill(arguments.workspace, 0x5a, kRoom);
    ConvArguments inner = arguments;
    inner.workspace = arguments.workspace + kRoom;
    op_->Forward(inner);
  }

 private:
  Device* device_;
  std::unique_ptr<ConvOp> op_;
};

std::string ConvText(const std::string& name, const std::string& bottom, int outputs) {
  return LayerText("Convolution", name, {bottom}, name,
                   "convolution_param { num_output: " + std::to_string(outputs) +
                       " kernel_size: 1 weight_filler { type: 'xavier' } }");
}

// Most bytes of arrays are alive in `second`, which needs less workspace than `narrow`.
std::string LateText() {
  return InputText("data", {8, 4, 64, 64}) + ConvText("first", "data", 32) +
         ConvText("second", "first", 32) +
         LayerText("Pooling", "pool", {"second"}, "pool",
                   "pooling_param { kernel_size: 8 stride: 8 }") +
         ConvText("narrow", "pool", kOutputs) + ReluText("relu", "narrow") +
         ConvText("last", "narrow", 5);
}

class PlannedWorkspacesTest : public testing::TestWithParam<DeviceType> {
 protected:
  void SetUp() override {
    ConvLibrary row;
    row.name = kName;
    row.supports = [](Device*, const ConvDescriptor& d) { return d.out_channels == kOutputs; };
    row.make = [](Device* device, const ConvDescriptor& d) {
      return std::make_unique<SpaciousConv>(device, d);
    };
    AddLibrary(row);
  }
  void TearDown() override { RemoveLibrary(kName); }
  std::unique_ptr<Net> Make(const std::string& text) const {
    auto net = MakeNet(TypeText(GetParam().type) + text, device_);
    FillInputs(net.get());
    return net;
  }
  // The bytes of the net's own workspace.
  static int64_t SharedBytes(const Net& net) {
    return net.layers()[0]->context().workspace->bytes();
  }
  Device* const device_ = GetParam().device;

 private:
  const ScopedVariable library_{"CAFFE_LIBRARY", Concat("conv=", kName)};
};

TEST_P(PlannedWorkspacesTest, LieWhereFewArraysAre) {
  device_->ReleaseCache();
  const int64_t before = device_->bytes_in_use();
  const auto net = Make(LateText());
  const MemoryNeeds needs = net->memory_needs();
  // Replays are recorded after some forwards.
  for (int i = 0; i < 4; ++i) net->Forward();
  const double total = static_cast<double>(needs.total());
  EXPECT_NEAR(static_cast<double>(device_->bytes_in_use() - before), total, 0.02 * total)
      << needs.ToString();
  EXPECT_EQ(net->memory_needs().total(), needs.total());
  // On some processors and GPUs the workspace of other types is not in the arena.
  if (GetParam().type == kFloat) {
    EXPECT_LT(SharedBytes(*net), kRoom);
  }

  const auto apart = Make("reduced_memory_inference: false " + LateText());
  apart->Forward();
  EXPECT_GE(SharedBytes(*apart), kRoom);
  // Reading computes again what was overwritten.
  for (const char* blob : {"last", "narrow", "pool", "second", "first"}) {
    EXPECT_EQ(Values(*net, blob), Values(*apart, blob)) << blob;
  }
  net->Forward();
  EXPECT_EQ(Values(*net, "last"), Values(*apart, "last"));
}

TEST_P(PlannedWorkspacesTest, AWarmForwardAllocatesNothing) {
  const auto net = Make(LateText());
  net->Forward();
  device_->ResetCounters();
  net->Forward();
  EXPECT_EQ(device_->counters().allocations, 0);
}

TEST_P(PlannedWorkspacesTest, FollowShapes) {
  const auto net = Make(LateText());
  net->Forward();
  for (const int64_t batch : {2, 8, 3}) {
    net->BlobByName("data")->Reshape({batch, 4, 64, 64});
    FillInputs(net.get());
    net->Forward();
    const auto apart = Make("reduced_memory_inference: false " + LateText());
    apart->BlobByName("data")->Reshape({batch, 4, 64, 64});
    FillInputs(apart.get());
    apart->Forward();
    EXPECT_EQ(Values(*net, "last"), Values(*apart, "last")) << batch;
  }
}

// Beside the largest arrays a workspace takes as many bytes anywhere.
TEST_P(PlannedWorkspacesTest, StayInTheNetsWorkspaceWhereNothingIsGained) {
  const auto net = Make(InputText("data", {8, 4, 64, 64}) + ConvText("wide", "data", kOutputs) +
                        ConvText("last", "wide", 5));
  const MemoryNeeds needs = net->memory_needs();
  net->Forward();
  EXPECT_GE(SharedBytes(*net), kRoom);
  EXPECT_GE(needs.workspace, kRoom);
  EXPECT_EQ(net->memory_needs().total(), needs.total());
}

INSTANTIATE_TEST_SUITE_P(All, PlannedWorkspacesTest, testing::ValuesIn(DevicesAndFloatsOfNets()),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

// The operators of a net use one workspace in turn, and prepare weights only when these changed.
#include <algorithm>

#include "caffe/device/runtime.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/memory/workspace.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

struct Layer3x3 {
  int outputs, size;
};

std::string ConvolutionText(int index, const Layer3x3& l, const std::string& bottom) {
  return Concat("layer { name: 'conv", index, "' type: 'Convolution' bottom: '", bottom,
                "' top: 'conv", index, "' convolution_param { num_output: ", l.outputs,
                " kernel_size: ", l.size, " pad: ", l.size / 2,
                " weight_filler { type: 'gaussian' std: 0.1 } } } ");
}

const Layer3x3 kLayers[] = {{4, 3}, {12, 5}, {6, 3}, {3, 7}};

class SharedWorkspaceTest : public testing::TestWithParam<DeviceType> {
 protected:
  std::unique_ptr<Net> MakeNet(const std::string& layers, int channels, Phase phase = TEST) {
    const auto [device, type] = GetParam();
    NetOptions options;
    options.device = device;
    options.phase = phase;
    options.seed = 3;
    NetParameter parameter = ParseNet(
        Concat("layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 2 dim: ",
               channels, " dim: 16 dim: 16 } } } ", layers));
    parameter.set_data_type(static_cast<DataTypeProto>(type.info().proto));
    return std::make_unique<Net>(parameter, options);
  }
  static void Forward(Net* net) {
    net->input_blobs()[0]->SetData(TestNumbers(net->input_blobs()[0]->count(), 1));
    net->Forward();
  }
};

TEST_P(SharedWorkspaceTest, HoldsTheMaximumNotTheSum) {
  std::string all, bottom = "data";
  int channels = 2, index = 0;
  int64_t largest = 0, sum = 0;
  for (const Layer3x3& l : kLayers) {
    const auto alone = MakeNet(ConvolutionText(index, l, "data"), channels);
    Forward(alone.get());
    const int64_t bytes = alone->layers()[1]->context().workspace->bytes();
    largest = std::max(largest, bytes);
    sum += bytes;
    all += ConvolutionText(index, l, bottom);
    bottom = Concat("conv", index++);
    channels = l.outputs;
  }
  if (sum == 0) GTEST_SKIP() << "the libraries of " << GetParam().device->info().id << " need none";
  EXPECT_GT(sum, largest);
  const auto net = MakeNet(all, 2);
  Forward(net.get());
  const Workspace* workspace = net->layers()[0]->context().workspace;
  for (const auto& layer : net->layers()) EXPECT_EQ(layer->context().workspace, workspace);
  if (InCOrder(net.get())) {
    EXPECT_EQ(workspace->bytes(), largest);
  } else {
    int64_t most = 0;  // other layouts need other workspaces
    for (const StepInfo& step : net->Steps()) most = std::max(most, step.workspace_bytes);
    EXPECT_EQ(workspace->bytes(), most);
  }
}

TEST_P(SharedWorkspaceTest, AWarmForwardAllocatesAndPreparesNothing) {
  const auto [device, type] = GetParam();
  const auto net = MakeNet(ConvolutionText(0, {32, 3}, "data") +
                               "layer { name: 'ip' type: 'InnerProduct' bottom: 'conv0' top: 'ip' "
                               "inner_product_param { num_output: 10 weight_filler { type: "
                               "'xavier' } } }",
                           16);
  Forward(net.get());
  const auto expected = net->output_blobs()[0]->DataAsDouble();
  Forward(net.get());
  device->ResetCounters();
  Forward(net.get());
  const DeviceCounters warm = device->counters();
  EXPECT_EQ(warm.allocations, 0);
  EXPECT_EQ(warm.builds, 0);
  // Weights that were written are prepared again, with launches on top of those of a warm forward.
  BlobBase& weights = *net->layers()[1]->blobs()[0];
  auto values = weights.DataAsDouble();
  const auto before = values;
  for (double& value : values) value *= 2;
  weights.SetData(values);
  Forward(net.get());
  EXPECT_NE(net->output_blobs()[0]->DataAsDouble(), expected);
  weights.SetData(before);
  Forward(net.get());
  EXPECT_EQ(net->output_blobs()[0]->DataAsDouble(), expected);
}

INSTANTIATE_TEST_SUITE_P(All, SharedWorkspaceTest,
                         testing::ValuesIn(DevicesAndTypes({kFloat, kHalf})),
                         [](const auto& info) { return TestName(info.param); });

// On the CPU narrow weights are widened, and Winograd's windows transformed, when they change: a
// warm forward of half types launches nothing for weights. Fewer rows read narrow weights.
TEST(PreparedWeightsTest, NarrowWeightsAreWidenedOnce) {
  Device* cpu = Runtime::Get().cpu();
  const auto launches = [&](bool written) {
    NetOptions options;
    options.device = cpu;
    options.phase = TEST;
    NetParameter parameter = ParseNet(
        "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 60 dim: 64 } } "
        "} "
        "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
        "  inner_product_param { num_output: 10 } }");
    parameter.set_data_type(CAFFE_HALF);
    Net net(parameter, options);
    net.Forward();
    if (written) net.layers()[1]->blobs()[0]->mutable_host_data();
    cpu->ResetCounters();
    net.Forward();
    return cpu->counters().launches;
  };
  // The conversion to half, and the widening.
  EXPECT_EQ(launches(true), launches(false) + 2);
}

// The steps of a recurrent layer multiply with one copy of the weights, in both phases.
TEST(PreparedWeightsTest, StepsOfARecurrentLayerShareThem) {
  const auto derived = [](const std::string& type, Phase phase, DataTypeProto data_type,
                          int64_t steps) {
    const std::string rows = " dim: " + std::to_string(steps) + " dim: 16";
    NetParameter parameter =
        ParseNet("layer { name: 'data' type: 'Input' top: 'x' top: 'cont' input_param { shape {" +
                 rows + " dim: 8 } shape {" + rows + " } } } layer { name: 'steps' type: '" + type +
                 "' bottom: 'x' bottom: 'cont' top: 'h' recurrent_param { num_output: 32 } }");
    parameter.set_data_type(data_type);
    parameter.set_force_backward(phase == TRAIN);
    NetOptions options;
    options.device = Runtime::Get().cpu();
    options.phase = phase;
    return Net(parameter, options).memory_needs().derived;
  };
  for (const std::string type : {"LSTM", "RNN", "GRU"}) {
    for (const Phase phase : {TEST, TRAIN}) {
      for (const DataTypeProto data_type : {CAFFE_FLOAT, CAFFE_BFLOAT16}) {
        const int64_t bytes = derived(type, phase, data_type, 6);
        EXPECT_GE(bytes, 32 * 32 * 2) << type << " " << phase << " " << data_type;
        // The product of all steps with the input has too many rows for the libraries packed and
        // rows.
        // The element-wise layers of a step of RNN are one, which has a number of its own.
        const int64_t own = type == "RNN" && phase == TEST ? 4 : 0;
        EXPECT_EQ(bytes, derived(type, phase, data_type, 4) + 2 * own) << type << " " << phase;
      }
    }
  }
}

}  // namespace
}  // namespace caffe

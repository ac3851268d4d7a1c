// Blobs in kNHWC between the layers of a net, with a library for convolutions that prefers it.
#include "caffe/library/libraries.hpp"
#include "caffe/library/multiplexer.hpp"
#include "caffe/net/plan.hpp"
#include "caffe/net/step_info.hpp"
#include "net/channels_last_library.hpp"
#include "net/layer_text.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"
#include "support/graphs_off.hpp"

namespace caffe {
namespace {

using Numbers = std::vector<double>;

std::string ConvText(const std::string& name, const std::string& bottom, int outputs = 5) {
  return LayerText("Convolution", name, {bottom}, name,
                   Concat("convolution_param { num_output: ", outputs,
                          " kernel_size: 3 pad: 1 weight_filler { type: 'uniform' min: -0.4 "
                          "max: 0.4 } bias_filler { type: 'constant' value: 0.1 } }"));
}

// Every layer that knows kNHWC, a branch, and layers that do not.
std::string NetText() {
  return InputText("data", {2, 3, 12, 10}) + ConvText("conv1", "data") +
         ReluText("relu1", "conv1") +
         LayerText("LRN", "norm1", {"conv1"}, "norm1", "lrn_param { local_size: 3 alpha: 0.5 }") +
         LayerText("Pooling", "pool1", {"norm1"}, "pool1",
                   "pooling_param { kernel_size: 3 stride: 2 }") +
         ConvText("left", "pool1") + ConvText("right", "pool1", 4) +
         LayerText("ELU", "elu", {"right"}, "right") +
         LayerText("Concat", "concat", {"left", "right"}, "concat") +
         ConvText("conv2", "concat", 9) + LayerText("Eltwise", "sum", {"conv2", "concat"}, "sum") +
         LayerText("Scale", "scale", {"sum"}, "scale", "scale_param { filler { value: 0.5 } }") +
         LayerText("Pooling", "pool2", {"sum"}, "pool2",
                   "pooling_param { pool: AVE kernel_size: 2 stride: 2 }") +
         InnerProductText("ip", "pool2", 3) + LayerText("Softmax", "prob", {"ip"}, "prob");
}

// Layers of two bottoms and two tops between layers in kNHWC: they have no work in it.
std::string TwinsText() {
  const auto twins = [](const std::string& type, const std::string& name, const std::string& a,
                        const std::string& b, const std::string& window) {
    return "layer { name: '" + name + "' type: '" + type + "' bottom: '" + a + "' bottom: '" + b +
           "' top: '" + name + "_a' top: '" + name + "_b' convolution_param { num_output: 16 " +
           window + " weight_filler { type: 'uniform' min: -0.4 max: 0.4 } } } ";
  };
  return InputText("a", {1, 3, 8, 9}) + InputText("b", {1, 3, 8, 9}) + ConvText("first", "a") +
         ConvText("second", "b") +
         twins("Convolution", "conv", "first", "second", "kernel_size: 3 pad: 1") +
         ReluText("relu", "conv_a") +
         twins("Deconvolution", "deconv", "conv_a", "conv_b", "kernel_size: 2 stride: 2") +
         ConvText("last_a", "deconv_a") + ConvText("last_b", "deconv_b");
}

class LayoutsTest : public testing::TestWithParam<DeviceType> {
 protected:
  static std::unique_ptr<Net> Make(const std::string& text) {
    const auto [device, type] = GetParam();
    auto net = MakeNet(TypeText(type) + text, device);
    FillInputs(net.get());
    return net;
  }
  // The net with the library, and the same one without it.
  void Make() {
    expected_ = Make(NetText());
    AddLibrary(ChannelsLastLibrary("channels_last", false));
    net_ = Make(NetText());
  }
  void TearDown() override { RemoveLibrary("channels_last"); }
  void ExpectBlobsAgree() {
    const double tolerance = GetParam().type == kFloat ? 1e-5 : 2e-2;
    for (const std::string& name : net_->blob_names()) {
      const Numbers actual = Values(*net_, name), expected = Values(*expected_, name);
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t i = 0; i < actual.size(); ++i) {
        ASSERT_NEAR(actual[i], expected[i], tolerance * (1 + std::abs(expected[i])))
            << name << " " << i;
      }
    }
  }

  std::unique_ptr<Net> net_, expected_;
};

// "conv1: NCHW/NHWC +1", for steps that are not computed in C order alone.
std::string Layouts(Net* net) {
  std::string text;
  for (const StepInfo& step : net->Steps()) {
    if (step.layout() != "NCHW") text += step.layers[0] + ": " + step.layout() + "\n";
  }
  return text;
}

TEST_P(LayoutsTest, BlobsStayInTheLayoutOfTheirReaders) {
  Make();
  EXPECT_EQ(Layouts(net_.get()),
            "conv1: NCHW/NHWC\n"
            "norm1: NHWC\n"
            "pool1: NHWC\n"
            "pool1_pool1_0_split: NHWC\n"
            "left: NHWC\n"
            "right: NHWC\n"
            "concat: NHWC\n"
            "concat_concat_0_split: NHWC\n"
            "conv2: NHWC\n"
            "sum_sum_0_split: NHWC\n"
            "scale: NHWC +1\n"
            "pool2: NHWC\n"
            "ip: NCHW +1\n");
  EXPECT_EQ(net_->plan().conversions(), 2);
}

TEST_P(LayoutsTest, LayersOfSeveralBottomsStayInCOrder) {
  expected_ = Make(TwinsText());
  AddLibrary(ChannelsLastLibrary("channels_last", false));
  net_ = Make(TwinsText());
  expected_->Forward();
  net_->Forward();
  ExpectBlobsAgree();
  EXPECT_NE(Layouts(net_.get()).find("conv: NCHW +2\n"), std::string::npos) << Layouts(net_.get());
}

TEST_P(LayoutsTest, ValuesAreTheSame) {
  Make();
  expected_->Forward();
  net_->Forward();
  EXPECT_EQ(Values(*net_, "prob").size(), 6u);
  ExpectBlobsAgree();
  // Blobs that were read in between, and new inputs.
  FillInputs(net_.get(), 9);
  FillInputs(expected_.get(), 9);
  net_->Forward();
  expected_->Forward();
  ExpectBlobsAgree();
}

// One position for each channel has one order: its conversion writes over the array that it reads.
TEST_P(LayoutsTest, ABlobOfOnePositionIsNotCopied) {
  const GraphsOff off;
  const std::string text = InputText("data", {2, 3, 4, 4}) + ConvText("conv1", "data") +
                           LayerText("Pooling", "pool1", {"conv1"}, "pool1",
                                     "pooling_param { pool: AVE kernel_size: 4 stride: 4 }") +
                           LayerText("Softmax", "prob", {"pool1"}, "prob");
  expected_ = Make(text);
  AddLibrary(ChannelsLastLibrary("channels_last", false));
  net_ = Make(text);
  EXPECT_EQ(net_->plan().conversions(), 1);
  for (const int height : {4, 8, 4}) {
    for (Net* net : {net_.get(), expected_.get()}) {
      net->input_blobs()[0]->Reshape({2, 3, height, 4});
      for (int pass = 0; pass < 3; ++pass) {
        FillInputs(net, 5 + pass);
        GetParam().device->ResetCounters();
        net->Forward();
      }
      EXPECT_EQ(GetParam().device->counters().copies, 0) << height;
    }
    ExpectBlobsAgree();
    for (Net* net : {net_.get(), expected_.get()}) {
      FillInputs(net, 9);
      net->Forward();
    }
    EXPECT_EQ(Values(*net_, "prob").size(), 2u * 5 * height / 4);
    ExpectBlobsAgree();
  }
}

TEST_P(LayoutsTest, OtherShapes) {
  Make();
  net_->Forward();
  for (Net* net : {net_.get(), expected_.get()}) {
    net->input_blobs()[0]->Reshape({3, 3, 12, 10});
    FillInputs(net, 5);
    net->Forward();
  }
  ExpectBlobsAgree();
}

// A part of the net reads blobs that the whole pass kept in kNHWC.
TEST_P(LayoutsTest, PartsOfTheNet) {
  Make();
  net_->Forward();
  expected_->Forward();
  const int layers = static_cast<int>(net_->layers().size());
  for (int start = 0; start < layers; ++start) {
    if (net_->layer_names()[start] == "elu") continue;  // it would change its blob a second time
    net_->Forward(start, layers - 1);
    ExpectBlobsAgree();
    net_->Forward();
  }
}

TEST_P(LayoutsTest, KeptBlobsAreWritten) {
  Make();
  net_->Keep({"concat", "left"});
  EXPECT_EQ(net_->plan().conversions(), 4);
  net_->Forward();
  GetParam().device->ResetCounters();
  Values(*net_, "concat");
  Values(*net_, "left");
  EXPECT_EQ(GetParam().device->counters().launches, 0);
  expected_->Forward();
  ExpectBlobsAgree();
}

TEST_P(LayoutsTest, WarmForwardsBuildAndAllocateNothing) {
  Make();
  net_->Forward();
  net_->Forward();
  GetParam().device->ResetCounters();
  net_->Forward();
  const DeviceCounters counters = GetParam().device->counters();
  EXPECT_EQ(counters.builds, 0);
  EXPECT_EQ(counters.allocations, 0);
}

TEST_P(LayoutsTest, GradientsComputeInCOrder) {
  Make();
  for (Net* net : {net_.get(), expected_.get()}) {
    net->RequestGradients({"data"});
    net->Forward();
    BlobBase* prob = net->BlobByName("prob").get();
    prob->SetDiff(TestNumbers(prob->count(), 4));
    net->Backward();
  }
  EXPECT_EQ(Layouts(net_.get()), "");
  const Numbers actual = net_->BlobByName("data")->DiffAsDouble();
  const Numbers expected = expected_->BlobByName("data")->DiffAsDouble();
  const double tolerance = GetParam().type == kFloat ? 1e-5 : 2e-2;
  for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], tolerance);
}

INSTANTIATE_TEST_SUITE_P(All, LayoutsTest, testing::ValuesIn(DevicesAndTypes({kFloat, kHalf})),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace caffe

// The constructs of nets for detection and segmentation that forks of Caffe made popular, forward
// and backward, on every device and in every float kind.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "caffe/device/runtime.hpp"
#include "caffe/net/plan.hpp"
#include "io/temporary_folder.hpp"
#include "net/decoded.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"

namespace caffe {
namespace {

Device* Cpu() { return Runtime::Get().cpu(); }

std::string ConvolutionText(const std::string& name, const std::string& bottom,
                            const std::string& parameters,
                            const std::string& type = "Convolution") {
  return Concat("layer { name: '", name, "' type: '", type, "' bottom: '", bottom, "' top: '", name,
                "' convolution_param { ", parameters,
                " weight_filler { type: 'uniform' min: -0.5 max: 0.5 }"
                " bias_filler { type: 'uniform' min: -0.5 max: 0.5 } } } ");
}

// A layer of one top, which has its name.
std::string LayerText(const std::string& name, const std::string& type,
                      const std::vector<std::string>& bottoms, const std::string& more = "") {
  std::string text = "layer { name: '" + name + "' type: '" + type + "'";
  for (const std::string& bottom : bottoms) text += " bottom: '" + bottom + "'";
  return text + " top: '" + name + "' " + more + " } ";
}

std::string LossText(const std::string& scores) {
  return LayerText("loss", "SoftmaxWithLoss", {scores, "label"});
}

struct Construct {
  const char* name;
  std::string text;
  Shape score;  // of the blob `score`
};

const std::vector<Construct>& Constructs() {
  static const std::vector<Construct> constructs{
      // Convolution, regions, a classifier for each.
      {"FastRcnn",
       InputText("data", {2, 3, 12, 16}) + InputText("rois", {5, 5}) + InputText("label", {5}) +
           ConvolutionText("conv", "data", "num_output: 4 kernel_size: 3 pad: 1 stride: 2") +
           ReluText("relu", "conv") +
           LayerText("pool", "ROIPooling", {"conv", "rois"},
                     "roi_pooling_param { pooled_h: 3 pooled_w: 2 spatial_scale: 0.5 }") +
           InnerProductText("score", "pool", 4) + LossText("score"),
       {5, 4}},
      // Score maps for each bin of a region, which then vote; two layers read the regions.
      {"RFcn",
       InputText("data", {2, 3, 12, 16}) + InputText("rois", {5, 5}) + InputText("label", {5}) +
           ConvolutionText("conv", "data", "num_output: 36 kernel_size: 3 pad: 1 stride: 2") +
           LayerText("pool", "PSROIPooling", {"conv", "rois"},
                     "psroi_pooling_param { spatial_scale: 0.5 output_dim: 4 group_size: 3 }") +
           ConvolutionText("coarse", "data", "num_output: 36 kernel_size: 4 stride: 4") +
           LayerText("coarse_pool", "PSROIPooling", {"coarse", "rois"},
                     "psroi_pooling_param { spatial_scale: 0.25 output_dim: 4 group_size: 3 }") +
           LayerText("both", "Eltwise", {"pool", "coarse_pool"}) +
           LayerText("score", "Pooling", {"both"},
                     "pooling_param { pool: AVE kernel_size: 3 stride: 3 }") +
           LossText("score"),
       {5, 4, 1, 1}},
      // Means over large windows, resized and stacked on what they were made of.
      {"Pyramid",
       InputText("data", {2, 3, 9, 13}) + InputText("label", {2, 1, 17, 25}) +
           ConvolutionText("conv", "data", "num_output: 4 kernel_size: 3 pad: 1") +
           LayerText("bn", "BN", {"conv"}, "bn_param { momentum: 0.95 eps: 0.1 }") +
           ReluText("relu", "bn") +
           LayerText("pool", "Pooling", {"bn"},
                     "pooling_param { pool: AVE kernel_size: 4 stride: 4 }") +
           ConvolutionText("narrow", "pool", "num_output: 2 kernel_size: 1 bias_term: false") +
           LayerText("narrow_bn", "BN", {"narrow"},
                     "bn_param { slope_filler { value: 1 } bias_filler { value: 0.1 } eps: 0.1 }") +
           ReluText("narrow_relu", "narrow_bn") +
           LayerText("interp", "Interp", {"narrow_bn"}, "interp_param { height: 9 width: 13 }") +
           LayerText("all", "Concat", {"bn", "interp"}) +
           ConvolutionText("small", "all", "num_output: 4 kernel_size: 1") +
           LayerText("score", "Interp", {"small"}, "interp_param { zoom_factor: 2 }") +
           LossText("score"),
       {2, 4, 17, 25}},
      // An encoder whose masks a decoder uses. The image is odd.
      {"SegNet",
       InputText("data", {2, 3, 9, 10}) + InputText("label", {2, 1, 9, 10}) +
           ConvolutionText("conv", "data", "num_output: 4 kernel_size: 3 pad: 1") +
           LayerText("bn", "BN", {"conv"},
                     "bn_param { scale_filler { value: 1 } shift_filler { value: 0.001 } }") +
           ReluText("relu", "bn") +
           LayerText("pool", "Pooling", {"bn"},
                     "top: 'mask' pooling_param { kernel_size: 2 stride: 2 }") +
           ConvolutionText("inner", "pool", "num_output: 4 kernel_size: 3 pad: 1") +
           LayerText("up", "Upsample", {"inner", "mask"},
                     "upsample_param { scale: 2 pad_out_h: true }") +
           ConvolutionText("score", "up", "num_output: 4 kernel_size: 3 pad: 1") +
           LossText("score"),
       {2, 4, 9, 10}},
      // A convolution for each channel, then one across them.
      {"MobileNet",
       InputText("data", {2, 3, 9, 10}) + InputText("label", {2, 1, 5, 5}) +
           ConvolutionText("conv", "data", "num_output: 6 kernel_size: 3 pad: 1") +
           ReluText("relu", "conv") +
           ConvolutionText("dw", "conv", "num_output: 6 kernel_size: 3 pad: 1 stride: 2 group: 6",
                           "DepthwiseConvolution") +
           ReluText("dw_relu", "dw") +
           ConvolutionText("dw2", "dw", "num_output: 12 kernel_size: 3 pad: 1",
                           "ConvolutionDepthwise") +
           ConvolutionText("score", "dw2", "num_output: 4 kernel_size: 1") + LossText("score"),
       {2, 4, 5, 5}},
      // A coarse map enlarged and stacked on a finer one.
      {"Yolo",
       InputText("data", {2, 3, 8, 12}) + InputText("label", {2, 1, 8, 12}) +
           ConvolutionText("fine", "data", "num_output: 4 kernel_size: 3 pad: 1") +
           ConvolutionText("coarse", "fine", "num_output: 4 kernel_size: 3 pad: 1 stride: 2") +
           LayerText("up", "Upsample", {"coarse"}, "upsample_param { scale: 2 }") +
           LayerText("all", "Concat", {"up", "fine"}) +
           ConvolutionText("score", "all", "num_output: 4 kernel_size: 1") + LossText("score"),
       {2, 4, 8, 12}},
  };
  return constructs;
}

// Data that half and bfloat16 hold; regions of both images, inside and across the edges.
void FillConstruct(Net* net) {
  uint64_t seed = 3;
  for (BlobBase* blob : net->input_blobs()) {
    std::vector<double> values = TestNumbers(blob->count(), seed++);
    if (blob->name() == "rois") {
      values = {0, 0, 0, 15, 11, 1, 2, 3, 9, 8, 1, 5, 5, 6, 6, 0, -3, 4, 7, 20, 1, 0, 6, 14, 10};
    } else if (blob->name() == "label") {
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * i % 4);
    }
    blob->SetData(values);
  }
}

std::unique_ptr<Net> RunConstruct(const Construct& construct, DataType type, Device* device) {
  const std::string typed = Concat(
      "force_backward: true data_type: ",
      DataTypeProto_Name(static_cast<DataTypeProto>(type.info().proto)), " ", construct.text);
  auto net = MakeNet(typed, device, TRAIN);
  FillConstruct(net.get());
  net->ClearParamDiffs();
  net->Forward();
  net->Backward();
  return net;
}

class VisionNetsTest : public testing::TestWithParam<DeviceType> {};

TEST_P(VisionNetsTest, ForwardAndBackwardAgreeWithDoubleOnTheCpu) {
  const auto [device, type] = GetParam();
  for (const Construct& construct : Constructs()) {
    const auto net = RunConstruct(construct, type, device);
    const auto reference = RunConstruct(construct, kDouble, Cpu());
    ASSERT_EQ(net->BlobByName("score")->shape(), construct.score) << construct.name;
    EXPECT_EQ(net->BlobByName("score")->type(), type);
    const double tolerance = 20 * Tolerance(type == kDouble ? kFloat : type);
    ExpectNear(Values(*net, "score"), Values(*reference, "score"), tolerance, construct.name);
    ExpectNear(Values(*net, "loss"), Values(*reference, "loss"), tolerance, construct.name);
    ASSERT_EQ(net->learnable_params().size(), reference->learnable_params().size());
    for (size_t i = 0; i < net->learnable_params().size(); ++i) {
      const std::vector<double> gradient = reference->learnable_params()[i]->DiffAsDouble();
      ExpectNear(net->learnable_params()[i]->DiffAsDouble(), gradient, tolerance,
                 Concat(construct.name, ", gradient of parameter ", i));
    }
    const std::vector<double> gradient = reference->BlobByName("data")->DiffAsDouble();
    ExpectNear(net->BlobByName("data")->DiffAsDouble(), gradient, tolerance,
               Concat(construct.name, ", gradient of the data"));
    double sum = 0;
    for (const double d : gradient) sum += std::abs(d);
    EXPECT_GT(sum, 1e-3) << construct.name;
  }
}

// Regions and masks stay float in nets of every type, and so exact.
TEST_P(VisionNetsTest, RegionsAndMasksAreFloat) {
  const auto [device, type] = GetParam();
  for (const Construct& construct : Constructs()) {
    const auto net = RunConstruct(construct, type, device);
    for (const char* blob : {"rois", "mask"}) {
      if (!net->has_blob(blob)) continue;
      EXPECT_EQ(net->BlobByName(blob)->type(), kFloat) << construct.name;
    }
  }
}

// A region of an image that is not in the batch: at once on the CPU, with the loss on devices.
TEST_P(VisionNetsTest, ABadRegionIsAnErrorOfTheNet) {
  const auto [device, type] = GetParam();
  for (const char* name : {"FastRcnn", "RFcn"}) {
    const auto construct =
        std::find_if(Constructs().begin(), Constructs().end(),
                     [&](const Construct& one) { return one.name == std::string(name); });
    const auto net = MakeNet(
        Concat("data_type: ", DataTypeProto_Name(static_cast<DataTypeProto>(type.info().proto)),
               " ", construct->text),
        device, TRAIN);
    FillConstruct(net.get());
    std::vector<double> rois = Values(*net, "rois");
    rois[5] = 2;
    net->BlobByName("rois")->SetData(rois);
    const std::string message = ErrorOf([&] {
      net->Forward();
      net->Loss();
    });
    EXPECT_NE(message.find("pool ("), message.npos) << name << ": " << message;
    EXPECT_NE(message.find("image 2"), message.npos) << name << ": " << message;
  }
}

// Every maximum comes back to where it was, also where half could not count so far.
TEST_P(VisionNetsTest, MasksOfLargeImages) {
  const auto [device, type] = GetParam();
  const auto net = MakeNet(
      Concat("data_type: ", DataTypeProto_Name(static_cast<DataTypeProto>(type.info().proto)), " ",
             InputText("data", {1, 2, 66, 70}),
             LayerText("pool", "Pooling", {"data"},
                       "top: 'mask' pooling_param { kernel_size: 2 stride: 2 }"),
             LayerText("up", "Upsample", {"pool", "mask"})),
      device);
  FillInputs(net.get());
  net->Forward();
  const std::vector<double> x = Values(*net, "data"), y = Values(*net, "up");
  ASSERT_EQ(y.size(), x.size());
  int64_t kept = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (y[i] == 0) continue;
    ++kept;
    ASSERT_EQ(y[i], x[i]) << "element " << i;
  }
  EXPECT_EQ(kept, 2 * 33 * 35);
}

// A layer that reads the size of a blob alone adds nothing to the blob's gradient.
TEST_P(VisionNetsTest, SizeOfABlobThatHasAGradient) {
  const auto [device, type] = GetParam();
  const auto text = [&](const std::vector<std::string>& bottoms, const std::string& size) {
    return Construct{
        "Size",
        InputText("data", {2, 3, 8, 11}) + InputText("label", {2, 1, 8, 11}) +
            ConvolutionText("fine", "data", "num_output: 4 kernel_size: 3 pad: 1") +
            ConvolutionText("coarse", "fine", "num_output: 4 kernel_size: 3 pad: 1 stride: 2") +
            LayerText("up", "Interp", bottoms, size) +
            LayerText("score", "Eltwise", {"up", "fine"}) + LossText("score"),
        {}};
  };
  const auto net = RunConstruct(text({"coarse", "fine"}, ""), type, device);
  const auto fixed =
      RunConstruct(text({"coarse"}, "interp_param { height: 8 width: 11 }"), type, device);
  EXPECT_EQ(Values(*net, "score"), Values(*fixed, "score"));
  EXPECT_EQ(net->BlobByName("data")->DiffAsDouble(), fixed->BlobByName("data")->DiffAsDouble());
}

INSTANTIATE_TEST_SUITE_P(All, VisionNetsTest, testing::ValuesIn(DevicesAndFloatsOfNets()),
                         [](const auto& info) { return TestName(info.param); });

// Layers that compute in float kinds alone stay float in nets of codes, with casts around them.
TEST(VisionNetsOfCodesTest, ComputeNearlyWhatTheFloatNetDoes) {
  for (const Construct& construct : Constructs()) {
    const auto net = [&](DataType type, Device* device) {
      auto made = MakeNet(
          Concat("data_type: ", DataTypeProto_Name(static_cast<DataTypeProto>(type.info().proto)),
                 " ", construct.text),
          device);
      FillConstruct(made.get());
      return made;
    };
    const auto reference = net(kFloat, Cpu());
    reference->set_observe(true);
    reference->Forward();
    NetParameter calibrated;
    reference->ToProto(&calibrated);
    const std::vector<double> expected = Values(*reference, "score");
    double size = 0;
    for (const double value : expected) size = std::max(size, std::abs(value));
    for (const auto& [device, type] : DevicesAndTypes({kQuant8, kQuant16})) {
      const auto codes = net(type, device);
      codes->CopyTrainedLayersFrom(calibrated);
      codes->Forward();
      const std::vector<double> actual = Decoded(*codes->BlobByName("score"));
      ASSERT_EQ(actual.size(), expected.size());
      double error = 0;
      for (size_t i = 0; i < actual.size(); ++i) {
        error += std::abs(actual[i] - expected[i]) / static_cast<double>(actual.size());
      }
      EXPECT_LT(error, (type == kQuant8 ? 0.05 : 3e-4) * size)
          << construct.name << " in " << type.name() << " on " << device->info().id;
    }
  }
}

// --- DepthwiseConvolution is a Convolution wherever a net looks at it ----------------------------

std::string DepthwiseText(const std::string& type) {
  return InputText("data", {2, 3, 8, 8}) +
         ConvolutionText("conv", "data", "num_output: 6 kernel_size: 3 pad: 1 group: 3") +
         ConvolutionText("dw", "conv", "num_output: 6 kernel_size: 3 pad: 1 group: 6", type) +
         ReluText("relu", "dw");
}

TEST(DepthwiseNetTest, KeepsTheTypeThatTheUserGave) {
  for (const std::string type : {"DepthwiseConvolution", "ConvolutionDepthwise"}) {
    const auto net = MakeNet(
        InputText("data", {2, 3, 8, 8}) + ConvolutionText("dw", "data", "kernel_size: 3", type),
        Cpu());
    EXPECT_EQ(net->LayerByName("dw")->type(), type);
    NetParameter saved;
    net->ToProto(&saved);
    EXPECT_EQ(saved.layer(1).type(), type);
    EXPECT_FALSE(saved.layer(1).convolution_param().has_group()) << "the user's text is kept";
    ASSERT_EQ(saved.layer(1).blobs_size(), 2);
    EXPECT_EQ(saved.layer(1).blobs(0).shape().dim(1), 1);
  }
}

// Weights go from one type to the other, and the ReLU is computed by the convolution.
TEST(DepthwiseNetTest, TakesWeightsOfAConvolutionAndFusesTheReLU) {
  const auto reference = MakeNet(DepthwiseText("Convolution"), Cpu());
  NetParameter weights;
  reference->ToProto(&weights);
  FillInputs(reference.get());
  reference->Forward();
  for (const char* type : {"DepthwiseConvolution", "ConvolutionDepthwise"}) {
    NetOptions options;
    options.device = Cpu();
    options.phase = TEST;
    options.seed = 99;
    Net net(ParseNet(DepthwiseText(type)), options);
    net.CopyTrainedLayersFrom(weights);
    FillInputs(&net);
    net.Forward();
    EXPECT_EQ(Values(net, "dw"), Values(*reference, "dw"));
    EXPECT_EQ(net.plan().fused_steps(), 1);
  }
}

TEST(DepthwiseNetTest, CodesEqualThoseOfAConvolution) {
  NetParameter weights;
  {
    const auto net = MakeNet(DepthwiseText("Convolution"), Cpu());
    net->set_observe(true);
    FillInputs(net.get());
    net->Forward();
    net->ToProto(&weights);
  }
  for (const auto& [device, type] : DevicesAndTypes({kQuant8, kQuant16})) {
    const auto codes = [&, device = device, type = type](const std::string& layer_type) {
      const auto net = MakeNet(
          Concat("data_type: ", DataTypeProto_Name(static_cast<DataTypeProto>(type.info().proto)),
                 " ", DepthwiseText(layer_type)),
          device);
      net->CopyTrainedLayersFrom(weights);
      FillInputs(net.get());
      net->Forward();
      const BlobBase& blob = *net->BlobByName("dw");
      EXPECT_EQ(blob.type(), type);
      const auto* bytes = static_cast<const char*>(blob.host_data());
      return std::string(bytes, blob.bytes());
    };
    const std::string expected = codes("Convolution");
    EXPECT_EQ(codes("DepthwiseConvolution"), expected);
    EXPECT_EQ(codes("ConvolutionDepthwise"), expected);
  }
}

}  // namespace
}  // namespace caffe

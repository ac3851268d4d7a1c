// Small nets with the spellings of popular forks and of Caffe's own examples, one for each
// construct: parsed as files are, run on every device, and their gradients compared with
// differences. tests/net/vision_nets_test.cpp has more constructs of detection and segmentation.
#include <gtest/gtest.h>

#include <cmath>

#include "caffe/device/runtime.hpp"
#include "caffe/io/proto_io.hpp"
#include "net/net_support.hpp"
#include "support/devices.hpp"
#include "support/text.hpp"

namespace caffe {
namespace {

struct ForkNet {
  std::string name;
  std::string text;                                        // needs inputs by these names
  std::map<std::string, std::vector<double>> inputs = {};  // where random numbers do not do
  double tolerance = 1e-5;                                 // of gradients
};

void PrintTo(const ForkNet& net, std::ostream* out) { *out << net.name; }

const char* const kFillers =
    " weight_filler { type: 'uniform' min: -0.5 max: 0.5 } "
    "bias_filler { type: 'uniform' min: -0.2 max: 0.2 } ";

std::string Conv(const std::string& name, const std::string& bottom, int outputs,
                 const std::string& settings, const std::string& type = "Convolution") {
  return "layer { name: '" + name + "' type: '" + type + "' bottom: '" + bottom + "' top: '" +
         name + "' convolution_param { num_output: " + std::to_string(outputs) + kFillers +
         settings + " } } ";
}

std::string Plain(const std::string& type, const std::string& name, const std::string& bottom,
                  const std::string& more = "") {
  return "layer { name: '" + name + "' type: '" + type + "' bottom: '" + bottom + "' top: '" +
         name + "' " + more + " } ";
}

// Labels of three classes; each `period`-th is to be ignored.
std::vector<double> Labels(int count, int period, int ignored) {
  std::vector<double> labels;
  for (int i = 0; i < count; ++i) labels.push_back(i % period == period - 1 ? ignored : i % 3);
  return labels;
}

const std::string kSoftmaxLoss =
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'score' bottom: 'label' top: 'loss' ";

std::vector<ForkNet> Nets() {
  return {
      {"SqueezeAndExcitation",
       InputText("data", {2, 3, 5, 5}) + InputText("label", {2}) +
           Conv("shortcut", "data", 4, "kernel_size: 1") +
           Conv("conv1", "data", 4, "kernel_size: 3 pad: 1") +
           Plain("Pooling", "conv1_global_pool", "conv1",
                 "pooling_param { pool: AVE engine: CAFFE global_pooling: true }") +
           Conv("down", "conv1_global_pool", 2, "kernel_size: 1") + ReluText("down/relu", "down") +
           Conv("up", "down", 4, "kernel_size: 1") + Plain("Sigmoid", "prob", "up") +
           "layer { name: 'axpy' type: 'Axpy' bottom: 'prob' bottom: 'conv1' bottom: 'shortcut' "
           "top: 'axpy' } " +
           ReluText("axpy/relu", "axpy") + InnerProductText("score", "axpy", 3) + kSoftmaxLoss +
           "} ",
       {{"label", {0, 2}}}},
      {"FullyConvolutional",
       InputText("data", {1, 2, 6, 7}) + InputText("label", {1, 1, 6, 7}) +
           Conv("conv1_1", "data", 3, "pad: 5 kernel_size: 3") +
           Plain("Pooling", "pool1", "conv1_1",
                 "pooling_param { pool: MAX kernel_size: 2 stride: 2 }") +
           Conv("score_fr", "pool1", 3, "kernel_size: 1") +
           "layer { name: 'upscore' type: 'Deconvolution' bottom: 'score_fr' top: 'upscore' "
           "param { lr_mult: 0 } convolution_param { num_output: 3 bias_term: false kernel_size: 4 "
           "stride: 2 weight_filler { type: 'bilinear' } } } "
           "layer { name: 'score' type: 'Crop' bottom: 'upscore' bottom: 'data' top: 'score' "
           "crop_param { axis: 2 offset: 5 } } " +
           kSoftmaxLoss + "loss_param { ignore_label: 255 normalize: false } } ",
       {{"label", Labels(42, 5, 255)}}},
      {"FasterRcnn",
       InputText("data", {1, 2, 9, 11}) + InputText("rois", {3, 5}) + InputText("label", {3}) +
           InputText("bbox_targets", {3, 8}) + InputText("bbox_inside_weights", {3, 8}) +
           InputText("bbox_outside_weights", {3, 8}) +
           Conv("conv5", "data", 3, "kernel_size: 3 pad: 1 stride: 2") +
           "layer { name: 'roi_pool5' type: 'ROIPooling' bottom: 'conv5' bottom: 'rois' "
           "top: 'pool5' roi_pooling_param { pooled_w: 2 pooled_h: 3 spatial_scale: 0.5 } } " +
           InnerProductText("score", "pool5", 2) + InnerProductText("bbox_pred", "pool5", 8) +
           kSoftmaxLoss + "propagate_down: 1 propagate_down: 0 loss_weight: 1 } " +
           "layer { name: 'loss_bbox' type: 'SmoothL1Loss' bottom: 'bbox_pred' "
           "bottom: 'bbox_targets' bottom: 'bbox_inside_weights' bottom: 'bbox_outside_weights' "
           "top: 'loss_bbox' loss_weight: 1 smooth_l1_loss_param { sigma: 3.0 } } ",
       {{"rois", {0, 0, 0, 7, 6, 0, 2, 2, 10, 8, 0, 4, 1, 5, 3}}, {"label", {1, 0, 1}}}},
      {"RegionFullyConvolutional",
       InputText("data", {1, 2, 8, 8}) + InputText("rois", {2, 5}) + InputText("label", {2}) +
           Conv("rfcn_cls", "data", 3 * 4, "kernel_size: 1") +
           "layer { name: 'psroipooled_cls_rois' type: 'PSROIPooling' bottom: 'rfcn_cls' "
           "bottom: 'rois' top: 'psroipooled_cls_rois' psroi_pooling_param { spatial_scale: 0.5 "
           "output_dim: 3 group_size: 2 } } "
           "layer { name: 'ave_cls_score_rois' type: 'Pooling' bottom: 'psroipooled_cls_rois' "
           "top: 'cls_score' pooling_param { pool: AVE kernel_size: 2 stride: 2 } } "
           "layer { name: 'score' type: 'Reshape' bottom: 'cls_score' top: 'score' reshape_param { "
           "shape { dim: -1 dim: 3 } } } " +
           kSoftmaxLoss + "loss_param { normalization: PRE_FIXED pre_fixed_normalizer: 4 } } ",
       {{"rois", {0, 0, 0, 15, 15, 0, 2, 4, 11, 9}}, {"label", {2, 1}}}},
      {"SegNet",
       InputText("data", {2, 2, 6, 7}) + InputText("label", {2, 1, 6, 7}) +
           Conv("conv1", "data", 3, "kernel_size: 3 pad: 1") +
           Plain(
               "BN", "conv1_bn", "conv1",
               "param { lr_mult: 1 decay_mult: 1 } param { lr_mult: 1 decay_mult: 0 } bn_param { "
               "scale_filler { type: 'constant' value: 1 } shift_filler { type: 'constant' value: "
               "0.001 } }") +
           ReluText("relu1", "conv1_bn") +
           "layer { name: 'pool1' type: 'Pooling' bottom: 'conv1_bn' top: 'pool1' "
           "top: 'pool1_mask' pooling_param { pool: MAX kernel_size: 2 stride: 2 } } "
           "layer { name: 'upsample1' type: 'Upsample' bottom: 'pool1' bottom: 'pool1_mask' "
           "top: 'upsample1' upsample_param { scale: 2 upsample_h: 6 upsample_w: 7 } } " +
           Conv("score", "upsample1", 3, "kernel_size: 3 pad: 1") + kSoftmaxLoss +
           "softmax_param { engine: CAFFE } loss_param: { weight_by_label_freqs: true "
           "ignore_label: 11 class_weighting: 0.5 class_weighting: 2 class_weighting: 1.5 } } ",
       {{"label", Labels(84, 7, 11)}}},
      {"ShuffleNet",
       InputText("data", {2, 4, 6, 6}) + InputText("label", {2}) +
           Conv("resx1_conv1", "data", 6, "kernel_size: 1 group: 2 bias_term: false") +
           ReluText("relu1", "resx1_conv1") +
           Plain("ShuffleChannel", "shuffle1", "resx1_conv1",
                 "shuffle_channel_param { group: 2 }") +
           Conv("resx1_conv2", "shuffle1", 6, "kernel_size: 3 pad: 1 stride: 2",
                "ConvolutionDepthwise") +
           Conv("resx1_conv3", "resx1_conv2", 4, "kernel_size: 1 group: 2") +
           Plain("Pooling", "match", "data",
                 "pooling_param { pool: AVE kernel_size: 3 stride: 2 }") +
           "layer { name: 'cat' type: 'Concat' bottom: 'match' bottom: 'resx1_conv3' top: 'cat' "
           "} " +
           InnerProductText("score", "cat", 3) + kSoftmaxLoss + "} ",
       {{"label", {1, 2}}}},
      {"MobileNet",
       InputText("data", {2, 3, 6, 6}) + InputText("label", {2}) +
           Conv("conv1", "data", 4, "kernel_size: 3 pad: 1 stride: 2 bias_term: false") +
           Plain("ReLU6", "relu1", "conv1") +
           Conv("conv2_1/dw", "relu1", 4, "kernel_size: 3 pad: 1 group: 4 engine: CAFFE",
                "DepthwiseConvolution") +
           "layer { name: 'relu2' type: 'ReLU6' bottom: 'conv2_1/dw' top: 'conv2_1/dw' } " +
           Conv("conv2_1/sep", "conv2_1/dw", 5, "kernel_size: 1") +
           InnerProductText("score", "conv2_1/sep", 3) + kSoftmaxLoss + "} ",
       {{"label", {1, 2}}}},
      {"DenseNet",
       InputText("data", {2, 3, 8, 8}) + InputText("label", {2}) +
           Conv("conv1", "data", 4, "kernel_size: 3 pad: 1 bias_term: false") +
           Plain("BatchNorm", "conv1/bn", "conv1", "batch_norm_param { eps: 1e-5 }") +
           "layer { name: 'conv1/scale' type: 'Scale' bottom: 'conv1/bn' top: 'conv1/bn' "
           "scale_param { bias_term: true } } " +
           ReluText("relu1", "conv1/bn") +
           Plain("Pooling", "pool1", "conv1/bn",
                 "pooling_param { pool: MAX kernel_size: 3 stride: 2 pad: 1 ceil_mode: false }") +
           Conv("conv2_1", "pool1", 2, "kernel_size: 3 pad: 1") +
           "layer { name: 'concat_2_1' type: 'Concat' bottom: 'pool1' bottom: 'conv2_1' "
           "top: 'concat_2_1' } " +
           Plain("Pooling", "pool2", "concat_2_1",
                 "pooling_param { pool: AVE kernel_size: 2 stride: 2 ceil_mode: true }") +
           Plain("Pooling", "pool5", "pool2", "pooling_param { pool: AVE global_pooling: true }") +
           InnerProductText("score", "pool5", 3) + kSoftmaxLoss + "} ",
       {{"label", {1, 2}}}},
      {"Siamese",
       InputText("pair_data", {4, 2, 3, 3}) + InputText("sim", {4}) +
           "layer { name: 'slice_pair' type: 'Slice' bottom: 'pair_data' top: 'data' top: 'data_p' "
           "slice_param { slice_dim: 1 slice_point: 1 } } " +
           InnerProductText("feat", "data", 2,
                            "param { name: 'w' lr_mult: 1 } param { name: 'b' }") +
           InnerProductText("feat_p", "data_p", 2,
                            "param { name: 'w' lr_mult: 1 } param { name: 'b' }") +
           "layer { name: 'loss' type: 'ContrastiveLoss' bottom: 'feat' bottom: 'feat_p' "
           "bottom: 'sim' top: 'loss' contrastive_loss_param { margin: 2 } } ",
       {{"sim", {1, 0, 0, 1}}},
       // As in BVLC Caffe the gradient divides by the distance + 1e-4.
       1e-3},
      {"Autoencoder",
       InputText("data", {3, 1, 2, 3}) + Plain("Flatten", "flatdata", "data") +
           InnerProductText("encode1", "data", 4) + Plain("Sigmoid", "encode1neuron", "encode1") +
           InnerProductText("decode1", "encode1neuron", 6) +
           "layer { name: 'loss' type: 'SigmoidCrossEntropyLoss' bottom: 'decode1' "
           "bottom: 'flatdata' top: 'cross_entropy_loss' loss_weight: 1 } " +
           Plain("Sigmoid", "decode1neuron", "decode1") +
           "layer { name: 'l2' type: 'EuclideanLoss' bottom: 'decode1neuron' bottom: 'flatdata' "
           "top: 'l2_error' loss_weight: 0 } "},
      {"ElementWise",
       InputText("data", {2, 3, 4, 4}) + InputText("target", {2, 3, 4, 4}) +
           Conv("conv", "data", 3, "kernel_size: 3 pad: 1") + Plain("BNLL", "bnll", "conv") +
           Plain("Swish", "swish", "bnll", "swish_param { beta: 0.7 }") +
           Plain("Clip", "clip", "swish", "clip_param { min: -1 max: 1.5 }") +
           Plain("Threshold", "mask", "data", "threshold_param { threshold: 0.1 }") +
           "layer { name: 'param' type: 'Parameter' top: 'offset' param { lr_mult: 1 } "
           "parameter_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } } } "
           "layer { name: 'sum' type: 'Eltwise' bottom: 'clip' bottom: 'mask' bottom: 'offset' "
           "top: 'sum' } "
           "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'sum' bottom: 'target' top: 'loss' "
           "} "},
      {"PermutedHeads",
       InputText("data", {2, 3, 4, 5}) + InputText("label", {2}) +
           Conv("mbox_loc", "data", 4, "kernel_size: 3 pad: 1") +
           Plain("Permute", "mbox_loc_perm", "mbox_loc",
                 "permute_param { order: 0 order: 2 order: 3 order: 1 }") +
           Plain("Flatten", "mbox_loc_flat", "mbox_loc_perm", "flatten_param { axis: 1 }") +
           "layer { name: 'mean' type: 'Reduction' bottom: 'mbox_loc_flat' top: 'mean' "
           "reduction_param { operation: SUMSQ axis: 1 coeff: 0.1 } } "
           "layer { name: 'column' type: 'Reshape' bottom: 'mean' top: 'column' reshape_param { "
           "shape { dim: 0 dim: 1 } } } " +
           Plain("Tile", "tile", "column", "tile_param { axis: 1 tiles: 3 }") +
           InnerProductText("score", "tile", 3) + kSoftmaxLoss + "} ",
       {{"label", {0, 1}}}},
      {"OldLosses",
       InputText("data", {3, 4}) + InputText("label", {3}) + InputText("weights", {1, 1, 3, 3}) +
           InnerProductText("score", "data", 3) + Plain("Softmax", "prob", "score") +
           "layer { name: 'hinge' type: 'HingeLoss' bottom: 'score' bottom: 'label' top: 'hinge' "
           "hinge_loss_param { norm: L2 } } "
           "layer { name: 'log' type: 'MultinomialLogisticLoss' bottom: 'prob' bottom: 'label' "
           "top: 'log' } "
           "layer { name: 'info' type: 'InfogainLoss' bottom: 'score' bottom: 'label' "
           "bottom: 'weights' top: 'info' } ",
       {{"label", {0, 2, 1}}, {"weights", {1, 0.1, 0, 0.2, 1, 0.3, 0, 0, 1}}}},
  };
}

std::unique_ptr<Net> Make(const ForkNet& fork, const std::string& type, Device* device, int phase) {
  NetParameter parameter;
  ParseTextProto("data_type: " + type + " " + fork.text, fork.name, &parameter);
  NetOptions options;
  options.device = device;
  options.phase = phase;
  options.seed = 1701;
  auto net = std::make_unique<Net>(parameter, options);
  FillInputs(net.get());
  for (const auto& [name, values] : fork.inputs) net->BlobByName(name)->SetData(values);
  return net;
}

class ForkNetTest : public testing::TestWithParam<ForkNet> {};

TEST_P(ForkNetTest, GradientsAreThoseOfDifferences) {
  const ForkNet& fork = GetParam();
  const auto net = Make(fork, "CAFFE_DOUBLE", Runtime::Get().cpu(), 0);
  const auto objective = [&] {
    net->Forward();
    double sum = 0;
    for (size_t i = 0; i < net->blobs().size(); ++i) {
      const float weight = net->blob_loss_weights()[i];
      if (weight == 0) continue;
      for (const double value : net->blobs()[i]->DataAsDouble()) sum += weight * value;
    }
    return sum;
  };
  ASSERT_TRUE(std::isfinite(objective()));
  net->ClearParamDiffs();
  net->Backward();
  int nonzero = 0;
  for (size_t p = 0; p < net->learnable_params().size(); ++p) {
    if (net->params_lr()[p] == 0) continue;
    BlobBase* blob = net->learnable_params()[p];
    const std::vector<double> diff = blob->DiffAsDouble();
    std::vector<double> data = blob->DataAsDouble();
    for (size_t i = 0; i < data.size(); i += std::max<size_t>(1, data.size() / 3)) {
      const double kept = data[i], step = 1e-5;
      data[i] = kept + step;
      blob->SetData(data);
      const double above = objective();
      data[i] = kept - step;
      blob->SetData(data);
      const double difference = (above - objective()) / (2 * step);
      data[i] = kept;
      blob->SetData(data);
      EXPECT_NEAR(diff[i], difference, fork.tolerance * std::max(1.0, std::abs(difference)))
          << blob->name() << " " << i;
      nonzero += diff[i] != 0;
    }
  }
  EXPECT_GT(nonzero, 0);
}

TEST_P(ForkNetTest, EveryDeviceComputesTheSame) {
  const ForkNet& fork = GetParam();
  for (const int phase : {0, 1}) {
    const auto reference = Make(fork, "CAFFE_DOUBLE", Runtime::Get().cpu(), phase);
    reference->Forward();
    for (Device* device : TestDevices()) {
      const auto net = Make(fork, "CAFFE_FLOAT", device, phase);
      for (size_t p = 0; p < net->params().size(); ++p) {
        net->params()[p]->SetData(reference->params()[p]->DataAsDouble());
      }
      net->Forward();
      EXPECT_NEAR(net->Loss(), reference->Loss(), 1e-4 * std::max(1.f, std::abs(reference->Loss())))
          << device->info().id << " phase " << phase;
      if (phase == 0) net->Backward();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ForkNetTest, testing::ValuesIn(Nets()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace caffe

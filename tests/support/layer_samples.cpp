#include "support/layer_samples.hpp"

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/hdf5_file.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/sub_net.hpp"
#include "caffe/layers/pointwise_layer.hpp"
#include "data/test_database.hpp"
#include "data/test_images.hpp"
#include "io/temporary_folder.hpp"

namespace caffe {
namespace {

std::string MakeHdf5List(const TemporaryFolder& folder) {
  const std::vector<float> data{1, 2, 3, 4};
  Hdf5Writer file(folder / "data.h5");
  file.Write("data", {4, 1}, data.data());
  file.Commit();
  return folder.Put("hdf5.txt", (folder / "data.h5") + "\n");
}

std::string MakeImageList(const TemporaryFolder& folder) {
  folder.Put("0.png", PngOf(TestImage(2, 3, 3, 0)));
  return folder.Put("images.txt", "0.png 7\n");
}

// With the element-wise layers that have no sample yet: their parameters have defaults.
std::map<std::string, std::vector<LayerSample>> AndElementwise(
    std::map<std::string, std::vector<LayerSample>> samples) {
  for (const PointwiseRow& row : PointwiseRows()) samples.insert({row.type, {{""}}});
  return samples;
}

}  // namespace

bool NeedsNet(const std::string& type) {
  if (type == "StoredState") return true;
  if (type == "Python") return false;
  LayerParameter parameter;
  parameter.set_name("sample");
  parameter.set_type(type);
  LayerContext context;
  context.device = Runtime::Get().cpu();
  const auto& types = LayerRegistry::Get().Traits(type).types;
  if (!types.empty()) context.types = TypeTriple::Equal(types[0]);
  const auto layer = LayerRegistry::Get().Create(parameter, context);
  return dynamic_cast<const CompositeLayer*>(layer.get()) != nullptr;
}

const std::map<std::string, std::vector<LayerSample>>& LayerSamples() {
  static const TemporaryFolder folder;
  static const Shape image{2, 3, 4, 4};
  static const std::map<std::string, std::vector<LayerSample>> samples = AndElementwise({
      {"BatchNorm", {{""}, {"phase: TEST"}, {"batch_norm_param { fused_relu: true } phase: TEST"}}},
      {"Accuracy", {{"", {{4, 3}, {4}}, 1, {{1, {0, 1, 2, 1}}}}}},
      {"ArgMax", {{"", {{4, 3}}}}},
      {"Axpy", {{"", {{2, 3}, image, image}}}},
      {"CarriedState", {{"recurrent_param { num_output: 5 }", {{3, 2}}}}},
      {"GRUUnit", {{"", {{1, 2, 3}, {1, 2, 9}, {1, 2}, {1, 2, 9}}}}},
      {"LSTMSteps",
       {{"recurrent_param { num_output: 3 weight_filler { type: 'xavier' } }",
         {{4, 2, 12}, {4, 2}, {1, 2, 3}, {1, 2, 3}},
         3}}},
      {"LSTMUnit",
       {{"", {{1, 2, 3}, {1, 2, 12}, {1, 2}}, 2},
        {"", {{1, 2, 3}, {1, 2, 12}, {1, 2}, {1, 2, 12}}, 2}}},
      {"BN",
       {{""},
        {"bn_param { bn_mode: LEARN }", {image}, 3},
        {"bn_param { bn_mode: INFERENCE }"},
        {"phase: TEST"}}},
      {"Bias", {{""}, {"bias_param { axis: -1 }"}, {"bias_param { axis: 0 }", {image, image}}}},
      {"Concat", {{""}, {"", {image, image}}, {"concat_param { axis: 0 }", {image, image}}}},
      {"Clip", {{"clip_param { min: -0.5 max: 0.5 }"}}},
      {"ConvolutionDepthwise", {{"convolution_param { kernel_size: 3 }"}}},
      {"ContrastiveLoss",
       {{"contrastive_loss_param { margin: 4 }", {{4, 3}, {4, 3}, {4}}},
        {"contrastive_loss_param { margin: 4 legacy_version: true }", {{4, 3}, {4, 3}, {4}}}}},
      {"Convolution",
       {{"convolution_param { num_output: 2 kernel_size: 3 }"},
        {"convolution_param { num_output: 4 kernel_size: 2 group: 2 bias_term: false }",
         {{2, 4, 3, 3}}}}},
      {"Crop", {{"crop_param { offset: 1 }", {image, {2, 3, 2, 2}}}}},
      {"Data",
       {{Concat("phase: TRAIN data_param { source: '", MakeDatabase(folder / "lmdb", 4, 1, 2, 3),
                "' batch_size: 2 backend: LMDB }"),
         {},
         2}}},
      {"Deconvolution",
       {{"convolution_param { num_output: 2 kernel_size: 3 }"},
        {"convolution_param { num_output: 6 kernel_size: 2 group: 2 }", {{2, 4, 3, 3}}}}},
      {"DepthwiseConvolution", {{"convolution_param { kernel_size: 3 }"}}},
      {"Dropout", {{""}, {"phase: TEST"}, {"dropout_param { scale_train: false } phase: TEST"}}},
      {"DummyData",
       {{"dummy_data_param { shape { dim: 2 } }", {}},
        {"dummy_data_param { shape { dim: 2 } data_filler { type: 'gaussian' } }", {}}}},
      {"ELU", {{""}, {"elu_param { alpha: -0.5 }"}}},
      {"Eltwise",
       {{"", {image, image, image}},
        {"eltwise_param { coeff: 2 coeff: -0.5 }", {image, image}},
        {"eltwise_param { operation: MAX }", {image, image, image}},
        {"eltwise_param { operation: PROD }", {image, image, image}},
        {"eltwise_param { operation: PROD stable_prod_grad: false }", {image, image}}}},
      {"EuclideanLoss", {{"", {image, image}}}},
      {"Exp", {{"exp_param { scale: 0.5 }"}}},
      {"Flatten", {{""}}},
      {"HDF5Data",
       {{Concat("top: 'data' hdf5_data_param { source: '", MakeHdf5List(folder),
                "' batch_size: 2 }"),
         {}}}},
      {"HDF5Output",
       {{Concat("hdf5_output_param { file_name: '", folder / "output.h5", "' }"),
         {{2, 3}, {2}},
         0}}},
      {"HingeLoss", {{"", {{4, 3}, {4}}, 1, {{1, {0, 1, 2, 1}}}}}},
      {"ImageData",
       {{Concat("image_data_param { source: '", MakeImageList(folder), "' root_folder: '",
                folder.path().string(), "/' batch_size: 2 }"),
         {},
         2}}},
      {"InfogainLoss",
       {{"", {{4, 3}, {4}, {3, 3}}, 1, {{1, {0, 1, 2, 1}}}},
        {"", {{4, 3}, {4}, {3, 3}}, 2, {{1, {0, 1, 2, 1}}}}}},
      {"InnerProduct",
       {{"inner_product_param { num_output: 5 }"},
        {"inner_product_param { num_output: 5 transpose: true axis: 2 bias_term: false }"}}},
      {"Input", {{"input_param { shape { dim: 2 } }", {}}}},
      {"Interp", {{"interp_param { zoom_factor: 2 }"}}},
      {"LRN", {{""}, {"lrn_param { norm_region: WITHIN_CHANNEL local_size: 3 }"}}},
      {"Log", {{"log_param { shift: 3 }"}}},
      {"MemoryData",
       {{"memory_data_param { batch_size: 2 channels: 1 height: 1 width: 3 }", {}, 2}}},
      {"MultinomialLogisticLoss", {{"", {{4, 3}, {4}}, 1, {{1, {0, 1, 2, 1}}}}}},
      {"BoxAnnotatorOHEM",
       {{"box_annotator_ohem_param { roi_per_img: 1 }",
         {{3, 5}, {3}, {3}, {3, 2}},
         2,
         {{0, {0, 1, 1, 2, 2, 0, 1, 1, 2, 2, 0, 1, 1, 2, 2}}}}}},
      {"Proposal",
       {{"proposal_param { ratio: 1 scale: 1 }",
         {{1, 2, 3, 3}, {1, 4, 3, 3}, {1, 3}},
         2,
         {{2, {48, 48, 1}}}}}},
      {"SmoothL1LossOHEM", {{"", {{4, 3}, {4, 3}, {4, 3}}, 2}}},
      {"SoftmaxWithLossOHEM", {{"", {{4, 3}, {4}}, 3, {{1, {0, 1, 2, 1}}}}}},
      {"DetectionOutput",
       {{"detection_output_param { num_classes: 2 }", {{2, 12}, {2, 6}, {1, 2, 12}}}}},
      {"Normalize", {{""}, {"norm_param { across_spatial: false channel_shared: false }"}}},
      {"PriorBox", {{"prior_box_param { min_size: 2 }", {image, image}}}},
      {"PriorBoxClustered", {{"prior_box_param { width: 2 height: 3 }", {image, image}}}},
      {"Reorg", {{"", {{2, 4, 4, 4}}}, {"reorg_param { reverse: true }", {{2, 4, 4, 4}}}}},
      {"YoloDetectionOutput",
       {{"yolo_detection_output_param { num_classes: 1 num_box: 1 biases: 1 biases: 1 }",
         {{2, 6, 2, 2}}}}},
      {"Yolov3DetectionOutput",
       {{"yolov3_detection_output_param { num_classes: 1 num_box: 1 mask_group_num: 1 "
         "anchors_scale: 8 mask: 0 biases: 8 biases: 8 }",
         {{2, 6, 2, 2}}}}},
      {"PReLU", {{""}, {"prelu_param { channel_shared: true }"}}},
      {"PSROIPooling",
       {{"psroi_pooling_param { spatial_scale: 1 output_dim: 1 group_size: 2 }",
         {{1, 4, 6, 6}, {1, 5}},
         1,
         {{1, {0, 1, 1, 4, 4}}}}}},
      {"Parameter", {{"parameter_param { shape { dim: 2 dim: 3 } }", {}}}},
      {"Pooling",
       {{"pooling_param { kernel_size: 2 }"},
        {"pooling_param { kernel_size: 2 stride: 2 }", {image}, 2},
        {"pooling_param { kernel_size: 2 pool: AVE }"},
        {"pooling_param { kernel_size: 2 pool: STOCHASTIC }"}}},
      {"Permute", {{"permute_param { order: 0 order: 2 order: 3 order: 1 }"}}},
      {"Power",
       {{"power_param { power: 2 shift: 1 }"},
        {"power_param { scale: 3 }"},
        {"power_param { power: 0.5 shift: 9 }"},
        {"power_param { power: 0 }"}}},
      {"MOECombine",
       {{"", {{4, 3}, {2, 2}, {2, 2}, {4}}, 1, {{2, {1, 3, 0, 2}}, {3, {2, 0, 3, 1}}}}}},
      {"MOEGather", {{"", {{2, 3}, {4}, {2, 2}}, 1, {{1, {2, 0, 3, 1}}, {2, {1, 3, 0, 2}}}}}},
      {"MOELoss",
       {{"moe_param { load_balance_loss_weight: 1 z_loss_weight: 1 }", {{4, 3}, {4, 3}, {4, 3}}},
        {"moe_param { load_balance_loss_weight: 1 }", {{4, 3}, {4, 3}}}}},
      {"MOERoute",
       {{"moe_param { select_experts: 2 }", {{4, 3}}, 6},
        {"moe_param { select_experts: 2 full_forward: true capacity_factor: 0.5 }", {{4, 3}}, 6}}},
      {"Noise", {{""}, {"phase: TEST"}, {"noise_param { additive: true }"}}},
      {"GroupedConvolution",
       {{"convolution_param { num_output: 2 kernel_size: 3 } moe_param { experts: 2 }",
         {{4, 3, 4, 4}, {3}},
         1,
         {{1, {0, 1, 4}}}}}},
      {"GroupedInnerProduct",
       {{"inner_product_param { num_output: 2 } moe_param { experts: 2 }",
         {{4, 3}, {3}},
         1,
         {{1, {0, 1, 4}}}}}},
      {"Quantizer", {{""}}},
      {"ROIPooling",
       {{"roi_pooling_param { spatial_scale: 1 pooled_h: 2 pooled_w: 2 }",
         {{1, 2, 6, 6}, {1, 5}},
         1,
         {{1, {0, 1, 1, 4, 4}}}}}},
      {"ReLU6", {{""}, {"relu6_param { negative_slope: -0.5 }"}}},
      {"Reduction",
       {{""},
        {"reduction_param { operation: ASUM axis: 1 }"},
        {"reduction_param { operation: SUMSQ axis: 1 }"},
        {"reduction_param { operation: MEAN axis: 1 }"}}},
      {"ReLU", {{""}, {"relu_param { negative_slope: -0.5 }"}}},
      {"Reshape", {{"reshape_param { shape { dim: 2 dim: -1 } }"}}},
      {"Scale",
       {{"scale_param { bias_term: true }"},
        {"scale_param { axis: 2 }"},
        {"scale_param { num_axes: 0 }"},
        {"scale_param { num_axes: 2 bias_term: true }"},
        {"scale_param { axis: 0 }", {image, image}}}},
      {"ShuffleChannel", {{"shuffle_channel_param { group: 2 }", {{2, 4, 3, 3}}}}},
      {"SigmoidCrossEntropyLoss", {{"", {image, image}}}},
      {"Silence", {{"", {image}, 0}}},
      {"Slice", {{"slice_param { slice_point: 1 }", {image}, 2}, {""}}},
      {"SmoothL1Loss", {{"", {image, image, image, image}}, {"", {image, image}}}},
      {"Softmax", {{""}, {"softmax_param { axis: 0 }"}}},
      {"SoftmaxWithLoss",
       {{"", {{4, 3}, {4}}, 1, {{1, {0, 1, 2, 1}}}}, {"", {{4, 3}, {4}}, 2, {{1, {0, 1, 2, 1}}}}}},
      {"Split", {{"", {image}, 2}}},
      {"Tile", {{"tile_param { tiles: 2 }"}, {"tile_param { tiles: 2 axis: 0 }"}}},
      {"Upsample", {{""}, {"", {{1, 1, 2, 2}, {1, 1, 2, 2}}, 1, {{1, {0, 2, 9, 15}}}}}},
  });
  return samples;
}

}  // namespace caffe

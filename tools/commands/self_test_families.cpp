#include "commands/self_test_families.hpp"

#include "caffe/core/error.hpp"
#include "caffe/library/element_function.hpp"

namespace caffe {
namespace {

using Family = SelfTestFamily;

constexpr char kImages[] = "shape { dim: 3 dim: 4 dim: 9 dim: 9 }";
constexpr char kEvenImages[] = "shape { dim: 3 dim: 4 dim: 10 dim: 10 }";
constexpr char kRows[] = "shape { dim: 5 dim: 70 }";
constexpr char kFewClasses[] = "shape { dim: 5 dim: 4 }";
constexpr char kMatrix[] = "conv=matrix,gemm=matrix";
constexpr char kWeights[] =
    " weight_filler { type: 'uniform' min: -0.2 max: 0.2 }"
    " bias_filler { type: 'uniform' min: -0.2 max: 0.2 } ";

std::string Layer(const std::string& type, const std::string& parameter,
                  const std::string& bottoms = "bottom: 'x'") {
  return Concat("layer { name: 'tested' type: '", type, "' ", bottoms, " top: 'y' ", parameter,
                " } ");
}

std::string Convolution(const std::string& parameter, const std::string& type = "Convolution") {
  return Layer(type, "convolution_param { " + parameter + kWeights + " }");
}

// Layers of detection and segmentation nets.
void AddVisionFamilies(std::vector<Family>* all) {
  all->push_back({"DepthwiseConvolution", kImages,
                  Convolution("num_output: 8 kernel_size: 3 pad: 1", "DepthwiseConvolution"),
                  true});
  all->push_back({"BN", kImages, Layer("BN", "bn_param { momentum: 0.9 }")});
  all->push_back({"BN, SegNet", kImages, Layer("BN", "bn_param { bn_mode: LEARN }")});
  all->push_back({"Interp", kImages,
                  Layer("Interp", "interp_param { height: 13 width: 5 pad_beg: -1 }"), true});
  all->push_back({"Upsample", kImages, Layer("Upsample", "upsample_param { scale: 2 }"), true});
  all->push_back({"Upsample, mask", kEvenImages,
                  "layer { name: 'pool' type: 'Pooling' bottom: 'x' top: 'pool' top: 'mask' "
                  "pooling_param { kernel_size: 3 stride: 2 } } " +
                      Layer("Upsample", "upsample_param { upsample_h: 10 upsample_w: 10 }",
                            "bottom: 'pool' bottom: 'mask'")});
  Family roi{"ROIPooling", kImages,
             Layer("ROIPooling", "roi_pooling_param { pooled_h: 2 pooled_w: 3 spatial_scale: 0.5 }",
                   "bottom: 'x' bottom: 'rois'")};
  Family psroi{"PSROIPooling", kImages,
               Layer("PSROIPooling",
                     "psroi_pooling_param { spatial_scale: 0.5 output_dim: 1 group_size: 2 }",
                     "bottom: 'x' bottom: 'rois'")};
  for (Family* family : {&roi, &psroi}) {
    family->rois = true;
    all->push_back(*family);
  }
}

// Layers of SSD and YOLO. Boxes are those of 81 cells; the images are their codes, and a second
// input has the scores of 4 classes.
void AddDetectionFamilies(std::vector<Family>* all) {
  const std::string images = "bottom: 'x' bottom: 'x'";
  all->push_back(
      {"PriorBox", kImages,
       Layer("PriorBox", "prior_box_param { min_size: 2 max_size: 5 aspect_ratio: 2 }", images),
       false, false});
  all->push_back(
      {"PriorBoxClustered", kImages,
       Layer("PriorBoxClustered", "prior_box_param { width: 2 height: 3 clip: true }", images),
       false, false});
  all->push_back(
      {"Normalize", kImages,
       Layer("Normalize", "norm_param { across_spatial: false channel_shared: false }")});
  all->push_back({"Normalize, items", kImages, Layer("Normalize", "norm_param { eps: 0.1 }")});
  all->push_back({"Reorg, even", kEvenImages, Layer("Reorg", "reorg_param { stride: 2 }")});
  const std::string priors =
      "layer { name: 'priors' type: 'PriorBox' bottom: 'x' bottom: 'x' top: 'priors' "
      "prior_box_param { min_size: 2 } } ";
  // The best of each image; then no detection at all.
  for (const char* more : {"keep_top_k: 20", "confidence_threshold: 100"}) {
    all->push_back({.name = Concat("DetectionOutput, ", more),
                    .shape = kImages,
                    .layers = priors + Layer("DetectionOutput",
                                             Concat("detection_output_param { num_classes: 4 "
                                                    "code_type: CENTER_SIZE ",
                                                    more, " }"),
                                             "bottom: 'x' bottom: 'x2' bottom: 'priors'"),
                    .gradient = false,
                    .second = true});
  }
  // Two anchors for each cell: x has their scores; a Concat has as many codes.
  const std::string info =
      "layer { name: 'info' type: 'DummyData' top: 'info' dummy_data_param { shape { dim: 3 dim: 3 "
      "} "
      "data_filler { type: 'constant' value: 30 } } } ";
  all->push_back({.name = "Proposal",
                  .shape = kImages,
                  .layers = info +
                            "layer { name: 'codes' type: 'Concat' bottom: 'x2' bottom: 'x2' "
                            "top: 'codes' } " +
                            Layer("Proposal",
                                  "proposal_param { feat_stride: 4 base_size: 4 min_size: 0 "
                                  "ratio: 1 ratio: 0.5 scale: 2 }",
                                  "bottom: 'x' bottom: 'codes' bottom: 'info'"),
                  .gradient = false,
                  .second = true});
  // Losses, labels and weights of three regions.
  Family ohem{.name = "BoxAnnotatorOHEM",
              .shape = "shape { dim: 3 dim: 1 dim: 4 dim: 4 }",
              .layers =
                  "layer { name: 'tested' type: 'BoxAnnotatorOHEM' bottom: 'rois' bottom: "
                  "'x' bottom: 'x2' bottom: 'x2' top: 'labels' top: 'y' "
                  "box_annotator_ohem_param { roi_per_img: 9 } } ",
              .gradient = false,
              .second = true,
              .rois = true};
  all->push_back(ohem);
  all->push_back({.name = "SmoothL1LossOHEM",
                  .shape = kImages,
                  .layers = "layer { name: 'tested' type: 'SmoothL1LossOHEM' bottom: 'x' bottom: "
                            "'x2' top: 'loss' top: 'y' loss_weight: 0 loss_weight: 0 } ",
                  .gradient = false,
                  .second = true});
  all->push_back({.name = "SoftmaxWithLossOHEM",
                  .shape = "shape { dim: 5 dim: 4 }",
                  .layers =
                      "layer { name: 'tested' type: 'SoftmaxWithLossOHEM' bottom: 'x' bottom: "
                      "'label' top: 'loss' top: 'p' top: 'y' loss_weight: 0 loss_weight: 0 "
                      "loss_weight: 0 } ",
                  .gradient = false,
                  .labels = true});
  const std::string biases = "biases: 1 biases: 2";
  const char kPredictions[] = "shape { dim: 2 dim: 7 dim: 9 dim: 9 }";
  all->push_back({"YoloDetectionOutput", kPredictions,
                  Layer("YoloDetectionOutput",
                        "yolo_detection_output_param { num_classes: 2 num_box: 1 " + biases + " }"),
                  false, false});
  all->push_back({"Yolov3DetectionOutput", kPredictions,
                  Layer("Yolov3DetectionOutput",
                        "yolov3_detection_output_param { num_classes: 2 num_box: 1 mask: 0 "
                        "mask_group_num: 1 anchors_scale: 1 " +
                            biases + " }"),
                  false, false});
}

// Item t of the first axis is step t of the sequences. cont has numbers between 0 and 1. The
// weights of RNN are constant: those of a type would depend on the casts in its net. So are those
// of an LSTM with 8 units, whose steps are one layer on some devices.
void AddRecurrentFamilies(std::vector<Family>* all) {
  const std::string cont =
      "layer { name: 'cont' type: 'DummyData' top: 'cont' dummy_data_param { shape { dim: 3 dim: 4 "
      "} "
      "data_filler { type: 'uniform' min: 0 max: 1 } } } ";
  const std::string constant = "weight_filler { type: 'constant' value: 0.03 }";
  const auto add = [&](const char* name, const char* type, int units, const std::string& weights) {
    all->push_back(
        {name, kImages,
         cont + Layer(type, Concat("recurrent_param { num_output: ", units, " ", weights, " }"),
                      "bottom: 'x' bottom: 'cont'")});
  };
  add("LSTM", "LSTM", 6, kWeights);
  add("LSTM, 8 units", "LSTM", 8, constant);
  add("RNN", "RNN", 6, constant);
  add("GRU", "GRU", 6, kWeights);
}

// A mixture of experts. `gate` are the layers that compute the blob `score` from the items `in` of
// `shape`, `expert` those of an expert. The weights are constant, as those of RNN; so all experts
// are equal, and the result depends on the sum of the probabilities of those that are selected.
std::string MixtureOfExperts(const std::string& shape, const std::string& gate,
                             const std::string& expert, const std::string& more,
                             const std::string& bottom = "x") {
  const std::string input =
      "layer { name: 'in' type: 'Input' top: 'in' input_param { " + shape + " } } ";
  return Layer("MOE",
               "moe_param { gating_net { " + input + gate +
                   "layer { name: 'gate' type: 'Softmax' bottom: 'score' top: 'gate' } } "
                   "expert_net { " +
                   input + expert + "} " + more + " }",
               "bottom: '" + bottom + "'");
}

void AddMixtureFamilies(std::vector<Family>* all) {
  const auto product = [](double weight) {
    return Concat("layer { name: 'out' type: 'InnerProduct' bottom: 'in' top: 'out' ",
                  "inner_product_param { num_output: 6 weight_filler { type: 'constant' value: ",
                  weight, " } } } ");
  };
  // Both experts are selected: which ones have the largest probabilities could depend on rounding.
  all->push_back({"MOE", kRows,
                  MixtureOfExperts("shape { dim: 1 dim: 70 }",
                                   "layer { name: 'score' type: 'InnerProduct' bottom: 'in' top: "
                                   "'score' inner_product_param { num_output: 2 weight_filler { "
                                   "type: 'constant' value: 0.01 } } } ",
                                   product(0.05), "expert_instances: 2 select_experts: 2")});
  // The first elements of an item, which differ by far more than by rounding, select its experts.
  const std::string first =
      "layer { name: 'cut' type: 'Slice' bottom: 'in' top: 'score' top: 'rest' slice_param { "
      "slice_point: 4 } } layer { name: 'none' type: 'Silence' bottom: 'rest' } ";
  const std::string two = "expert_instances: 4 select_experts: 2 normalize_weights: false ";
  // In quantized nets the codes of `scaled` are the input.
  const std::string scaled =
      "layer { name: 'scaled' type: 'Power' bottom: 'x' top: 'scaled' power_param { scale: 0.9 } "
      "} ";
  // An expert that computes all items adds 0 times the extreme ones to its gradient (spreads).
  const auto routed = [&](const std::string& name, int items, int width, const std::string& more,
                          bool quantized) {
    all->push_back({.name = name,
                    .shape = Concat("shape { dim: ", items, " dim: ", width, " }"),
                    .layers = scaled + MixtureOfExperts(Concat("shape { dim: 1 dim: ", width, " }"),
                                                        first, product(0.02), more, "scaled"),
                    .quantized = quantized,
                    .spreads = true});
  };
  routed("MOE, 2 of 4", 5, 70, two, true);
  routed("MOE, 2 of 4, whole vectors", 40, 64, two, true);
  routed("MOE, full forward", 5, 70, two + "full_forward: true", true);
  routed("MOE, losses", 5, 70,
         two +
             "usage_loss_weight: 0.1 load_balance_loss_weight: 0.1 z_loss_weight: 0.01 "
             "balance_rate: 0.01 capacity_factor: 1",
         false);
  all->push_back({.name = "MOE, many items",
                  .shape = "shape { dim: 300 dim: 16 }",
                  .layers = MixtureOfExperts("shape { dim: 1 dim: 16 }", first, product(0.02), two),
                  .quantized = true,
                  .gradient = false,
                  .inference = true});
  all->push_back({.name = "MOE of convolutions",
                  .shape = kImages,
                  .layers = MixtureOfExperts(
                      "shape { dim: 1 dim: 4 dim: 9 dim: 9 }",
                      "layer { name: 'score' type: 'Pooling' bottom: 'in' top: 'score' "
                      "pooling_param { pool: AVE global_pooling: true } } ",
                      "layer { name: 'a' type: 'Convolution' bottom: 'in' top: 'a' "
                      "convolution_param { num_output: 12 kernel_size: 3 weight_filler { type: "
                      "'constant' value: 0.05 } } } "
                      "layer { name: 'b' type: 'Convolution' bottom: 'a' top: 'b' "
                      "convolution_param { num_output: 6 kernel_size: 1 weight_filler { type: "
                      "'constant' value: 0.1 } } } ",
                      two),
                  .quantized = true,
                  .spreads = true});
  // Some of the layers that a mixture consists of, in the type of the net.
  for (const bool every : {false, true}) {
    const std::string route = Concat("moe_param { experts: 4 select_experts: 2 ",
                                     "normalize_weights: false full_forward: ", every, " }");
    all->push_back(
        {.name = every ? "MOERoute, all rows" : "MOERoute",
         .shape = "shape { dim: 5 dim: 71 }",
         .layers = scaled +
                   "layer { name: 'cut' type: 'Slice' bottom: 'scaled' top: 'score' top: "
                   "'rest' slice_param { slice_point: 4 } } "
                   "layer { name: 'gate' type: 'Softmax' bottom: 'score' top: 'p' } "
                   "layer { name: 'route' type: 'MOERoute' bottom: 'p' top: 'observed' "
                   "top: 'expected' top: 'weights' top: 'slots' top: 'rows' top: "
                   "'offsets' " +
                   route +
                   " } layer { name: 'even' type: 'MOELoss' bottom: 'p' bottom: 'observed' bottom: "
                   "'score' top: 'even' loss_weight: 0.1 moe_param { select_experts: 2 "
                   "load_balance_loss_weight: 0.1 z_loss_weight: 0.01 } } "
                   "layer { name: 'gather' type: 'MOEGather' bottom: 'scaled' bottom: 'rows' "
                   "bottom: 'slots' top: 'gathered' } "
                   "layer { name: 'tested' type: 'MOECombine' bottom: 'gathered' bottom: 'weights' "
                   "bottom: 'slots' bottom: 'rows' top: 'y' }",
         .quantized = true});
  }
}

// Forms of kernels that the shapes of the other families do not lead to.
void AddFormFamilies(std::vector<Family>* all) {
  const std::string x = "bottom: 'x'", both = "bottom: 'x' bottom: 'x2'";
  const std::string labelled = "bottom: 'x' bottom: 'label'";
  const auto add = [&](Family family) { all->push_back(std::move(family)); };
  const auto simple = [&](const std::string& name, const std::string& shape,
                          const std::string& type, const std::string& parameter, bool quantized) {
    add({.name = name, .shape = shape, .layers = Layer(type, parameter), .quantized = quantized});
  };
  simple("ReLU, no slope", kImages, "ReLU", "", true);
  // One element for each channel of an item.
  simple("PReLU, rows", kRows, "PReLU", "", true);
  simple("BatchNorm, rows", kRows, "BatchNorm", "", false);
  simple("Scale, rows", kRows, "Scale", "scale_param { bias_term: true }", true);
  simple("Scale, rows, no bias", kRows, "Scale", "", false);
  simple("Bias, rows", kRows, "Bias", "", false);
  simple("BN, rows", "shape { dim: 5 dim: 70 dim: 1 dim: 1 }", "BN", "", false);
  simple("BN, frozen", kImages, "BN", "bn_param { frozen: true }", false);
  simple("BatchNorm, global", kImages, "BatchNorm",
         "batch_norm_param { use_global_stats: true eps: 1 }", true);
  simple("Softmax, many classes", kRows, "Softmax", "", false);
  simple("Softmax, few classes", kFewClasses, "Softmax", "", false);
  const auto eltwise = [&](const std::string& name, const std::string& bottoms,
                           const std::string& parameter, bool quantized) {
    add({.name = name,
         .shape = kImages,
         .layers = Layer("Eltwise", "eltwise_param { " + parameter + " }", bottoms),
         .quantized = quantized,
         .second = true});
  };
  eltwise("Eltwise, SUM of 3", both + x, "coeff: 0.5 coeff: -2 coeff: 1", true);
  eltwise("Eltwise, MAX of 3", both + x, "operation: MAX", true);
  eltwise("Eltwise, PROD, divided", both, "operation: PROD stable_prod_grad: false", false);
  add({.name = "Dropout, TEST",
       .shape = kImages,
       .layers = Layer("Dropout", "dropout_param { scale_train: false }"),
       .gradient = false,
       .inference = true});
  add({.name = "Pooling, STOCHASTIC, TEST",
       .shape = kImages,
       .layers = "layer { name: 'abs' type: 'AbsVal' bottom: 'x' top: 'a' } "
                 "layer { name: 'tested' type: 'Pooling' bottom: 'a' top: 'y' "
                 "pooling_param { pool: STOCHASTIC kernel_size: 3 stride: 2 } }",
       .gradient = false,
       .inference = true});
  // Terms of which several work items add parts.
  add({.name = "SoftmaxWithLoss, images",
       .shape = "shape { dim: 3 dim: 4 dim: 14 dim: 14 }",
       .layers = Layer("SoftmaxWithLoss", "loss_weight: 0", labelled),
       .labels = true,
       .label_shape = "shape { dim: 3 dim: 14 dim: 14 }"});
  add({.name = "Accuracy, per class",
       .shape = kFewClasses,
       .layers = "layer { name: 'tested' type: 'Accuracy' bottom: 'x' bottom: 'label' top: "
                 "'accuracy' top: 'y' } ",
       .gradient = false,
       .labels = true});
  add({.name = "Convolution, 3 axes",
       .shape = "shape { dim: 3 dim: 2 dim: 5 dim: 4 dim: 6 }",
       .layers = Convolution("num_output: 4 kernel_size: 3 pad: 1"),
       .quantized = true});
  // Work groups share the sum of a channel's gradient.
  add({.name = "Convolution, many items",
       .shape = "shape { dim: 1100 dim: 8 dim: 1 dim: 1 }",
       .layers = Convolution("num_output: 3 kernel_size: 1")});
}

// Inference: element-wise layers are computed with the layers before them, or as chains.
void AddInferenceFamilies(std::vector<Family>* all) {
  const auto add = [all](Family family) {
    family.gradient = false;
    family.inference = true;
    all->push_back(std::move(family));
  };
  const auto then = [](const std::string& type, const std::string& name, const std::string& bottoms,
                       const std::string& top, const std::string& parameter = "") {
    return Concat("layer { name: '", name, "' type: '", type, "' ", bottoms, " top: '", top, "' ",
                  parameter, " } ");
  };
  const std::string product = Concat("inner_product_param { num_output: 33 ", kWeights, " }");
  const std::string unbiased =
      "inner_product_param { num_output: 33 bias_term: false weight_filler { type: 'uniform' min: "
      "-0.2 max: 0.2 } }";
  add({.name = "Chain",
       .shape = kImages,
       .layers = then("AbsVal", "abs", "bottom: 'x'", "a") +
                 then("Scale", "scale", "bottom: 'a'", "b",
                      "scale_param { bias_term: true filler { type: 'uniform' min: -1 max: 1 } }") +
                 then("Eltwise", "sum", "bottom: 'b' bottom: 'x2'", "c") +
                 then("PReLU", "prelu", "bottom: 'c'", "d") +
                 then("TanH", "tanh", "bottom: 'd'", "y"),
       .quantized = true,
       .second = true});
  add({.name = "InnerProduct, TanH",
       .shape = kRows,
       .layers = then("InnerProduct", "ip", "bottom: 'x'", "a", product) +
                 then("TanH", "tanh", "bottom: 'a'", "y"),
       .quantized = true});
  add({.name = "InnerProduct, no bias, ReLU",
       .shape = kRows,
       .layers = then("InnerProduct", "ip", "bottom: 'x'", "a", unbiased) +
                 then("ReLU", "relu", "bottom: 'a'", "y"),
       .quantized = true});
  // A product takes the time of reading the weights.
  add({.name = "InnerProduct, few rows",
       .shape = "shape { dim: 2 dim: 64 }",
       .layers = then("InnerProduct", "ip", "bottom: 'x'", "y", product),
       .quantized = true,
       .libraries = kMatrix});
  add({.name = "InnerProduct, matrix",
       .shape = "shape { dim: 20 dim: 64 }",
       .layers = then("InnerProduct", "ip", "bottom: 'x'", "y", product),
       .quantized = true,
       .libraries = kMatrix});
  const auto convolution = [&](const std::string& name, const std::string& bottom,
                               const std::string& top, const std::string& parameter) {
    return then("Convolution", name, "bottom: '" + bottom + "'", top,
                "convolution_param { " + parameter + kWeights + " }");
  };
  // Layers between two convolutions that prefer channels last.
  add({.name = "Convolution, channels last",
       .shape = kImages,
       .layers =
           convolution("first", "x", "a", "num_output: 32 kernel_size: 3 pad: 1") +
           then("ReLU", "relu", "bottom: 'a'", "a") +
           then("LRN", "norm", "bottom: 'a'", "b", "lrn_param { local_size: 3 alpha: 0.5 }") +
           convolution("depthwise", "b", "c", "num_output: 32 kernel_size: 3 pad: 1 group: 32") +
           then("Pooling", "pool", "bottom: 'c'", "d",
                "pooling_param { kernel_size: 3 stride: 2 }") +
           convolution("last", "d", "y", "num_output: 24 kernel_size: 1"),
       .quantized = true,
       .libraries = kMatrix});
  add({.name = "Convolution, folded",
       .shape = "shape { dim: 3 dim: 3 dim: 11 dim: 11 }",
       .layers = convolution("tested", "x", "y", "num_output: 8 kernel_size: 5 stride: 2 pad: 1"),
       .quantized = true,
       .libraries = kMatrix});
  add({.name = "Convolution, depthwise 5x5",
       .shape = "shape { dim: 3 dim: 16 dim: 9 dim: 9 }",
       .layers = convolution("tested", "x", "y", "num_output: 16 kernel_size: 5 pad: 2 group: 16"),
       .quantized = true,
       .libraries = kMatrix});
  add({.name = "Convolution, small windows",
       .shape = kImages,
       .layers = convolution("tested", "x", "y", "num_output: 6 kernel_size: 5 stride: 2 pad: 1"),
       .libraries = "conv=small_windows"});
}

}  // namespace

std::vector<Family> SelfTestFamilyTable() {
  std::vector<Family> all;
  const auto neuron = [&all](const char* type, const std::string& parameter = "",
                             bool quantized = false) {
    all.push_back({type, kImages, Layer(type, parameter), quantized});
  };
  for (const ElementFunction::Kind kind : ElementFunction::Kinds()) {
    const ElementFunction::Row& row = ElementFunction::RowOf(kind);
    if (!row.summary.empty() && row.GradientReads('d')) neuron(row.name.c_str(), "", true);
  }
  neuron("Clip", "clip_param { min: -0.4 max: 0.6 }", true);
  neuron("Dropout", "dropout_param { dropout_ratio: 0.4 }");
  neuron("ELU", "elu_param { alpha: 0.5 }", true);
  neuron("Exp", "exp_param { base: 2 scale: 0.5 shift: 0.1 }", true);
  neuron("Log", "log_param { base: 2 scale: 0.5 shift: 3 }", true);
  neuron("Noise", "noise_param { sigma: 0.5 additive: true }");
  neuron("Power", "power_param { power: 1.5 scale: 0.5 shift: 2 }", true);
  neuron("PReLU", "", true);
  neuron("ReLU", "relu_param { negative_slope: 0.2 }", true);
  neuron("ReLU6", "relu6_param { negative_slope: 0.2 }", true);
  neuron("Scale", "scale_param { bias_term: true filler { type: 'uniform' min: -1 max: 1 } }",
         true);
  neuron("Bias", "bias_param { filler { type: 'uniform' min: -1 max: 1 } }", true);
  neuron("BatchNorm");
  neuron("Softmax");
  all.push_back(
      {"LRN across", kImages, Layer("LRN", "lrn_param { local_size: 3 alpha: 0.5 }"), true});
  all.push_back(
      {"LRN within", kImages,
       Layer("LRN", "lrn_param { local_size: 3 alpha: 0.5 norm_region: WITHIN_CHANNEL }")});
  const std::string both = "bottom: 'x' bottom: 'x2'";
  all.push_back({"Eltwise, SUM", kImages,
                 Layer("Eltwise", "eltwise_param { operation: SUM coeff: 0.5 coeff: -2 }", both),
                 true, true, true});
  all.push_back({"Eltwise, PROD", kImages,
                 Layer("Eltwise", "eltwise_param { operation: PROD }", both), true, true, true});
  all.push_back({"Eltwise, MAX", kImages,
                 Layer("Eltwise", "eltwise_param { operation: MAX }", both), true, true, true});
  // In quantized nets they have the codes of the pooling.
  const std::string codes =
      "layer { name: 'codes' type: 'Pooling' bottom: 'x' top: 'c' pooling_param { kernel_size: 1 } "
      "} ";
  all.push_back({"Concat", kImages,
                 codes + "layer { name: 'tanh' type: 'TanH' bottom: 'x2' top: 'c2' } " +
                     Layer("Concat", "", "bottom: 'c' bottom: 'c2'"),
                 true, true, true});
  all.push_back({"Slice", kImages,
                 codes + "layer { name: 'tested' type: 'Slice' bottom: 'c' top: 'a' top: 'b' "
                         "slice_param { slice_point: 1 } } "
                         "layer { name: 'back' type: 'Concat' bottom: 'b' bottom: 'a' top: 'y' }",
                 true});
  all.push_back({"Axpy", kImages,
                 "layer { name: 'a' type: 'Reduction' bottom: 'x2' top: 'a' "
                 "reduction_param { axis: 2 coeff: 0.1 } } " +
                     Layer("Axpy", "", "bottom: 'a' bottom: 'x' bottom: 'x2'"),
                 false, true, true});
  const auto reduction = [&all](const char* name, const std::string& operation) {
    all.push_back({name, kImages,
                   Layer("Reduction", Concat("reduction_param { axis: 1 coeff: 0.1 operation: ",
                                             operation, " }"))});
  };
  reduction("Reduction, SUM", "SUM");
  reduction("Reduction, ASUM", "ASUM");
  reduction("Reduction, SUMSQ", "SUMSQ");
  reduction("Reduction, MEAN", "MEAN");
  // These layers have the type of their bottom; in quantized nets the input is float, the pooling
  // is not.
  const auto moves = [&](const char* type, const std::string& parameter,
                         const std::string& more = "", const std::string& bottom = "") {
    all.push_back({type, kImages, codes + more + Layer(type, parameter, "bottom: 'c' " + bottom),
                   true, true, !more.empty()});
  };
  moves("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }");
  moves("ShuffleChannel", "shuffle_channel_param { group: 2 }");
  moves("Reorg", "reorg_param { reverse: true }");
  moves("Tile", "tile_param { tiles: 2 }");
  moves("Crop", "crop_param { offset: 1 }",
        "layer { name: 'small' type: 'Pooling' bottom: 'x2' top: 'small' "
        "pooling_param { kernel_size: 3 } } ",
        "bottom: 'small'");
  all.push_back({"Threshold", kImages, Layer("Threshold", "threshold_param { threshold: 0.3 }"),
                 false, false});
  all.push_back({"ArgMax", kImages, Layer("ArgMax", "argmax_param { axis: 1 }"), true, false});
  all.push_back(
      {"InnerProduct", kRows,
       Layer("InnerProduct", Concat("inner_product_param { num_output: 33 ", kWeights, " }")),
       true});
  all.push_back({"Convolution", kImages, Convolution("num_output: 6 kernel_size: 3 pad: 1"), true});
  all.push_back({"Convolution, strided", kImages,
                 Convolution("num_output: 6 kernel_size: 3 stride: 2 dilation: 2 group: 2"), true});
  all.push_back({"Convolution, depthwise", kImages,
                 Convolution("num_output: 4 kernel_size: 3 pad: 1 group: 4"), true});
  all.push_back({"Deconvolution", kImages,
                 Layer("Deconvolution", Concat("convolution_param { num_output: 3 kernel_size: 4 "
                                               "stride: 2 ",
                                               kWeights, " }")),
                 true});
  all.push_back({"Pooling, MAX", kImages,
                 Layer("Pooling", "pooling_param { kernel_size: 3 stride: 2 pad: 1 }"), true});
  all.push_back({"Pooling, MAX 2x2", kEvenImages,
                 Layer("Pooling", "pooling_param { kernel_size: 2 stride: 2 }"), true});
  all.push_back({"Pooling, AVE", kImages,
                 Layer("Pooling", "pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }"),
                 true});
  // The input must not be negative.
  all.push_back({"Pooling, STOCHASTIC", kImages,
                 "layer { name: 'abs' type: 'AbsVal' bottom: 'x' top: 'a' } "
                 "layer { name: 'tested' type: 'Pooling' bottom: 'a' top: 'y' "
                 "pooling_param { pool: STOCHASTIC kernel_size: 3 stride: 2 } }"});
  all.push_back({"SoftmaxWithLoss", kRows,
                 Layer("SoftmaxWithLoss", "loss_weight: 0", "bottom: 'x' bottom: 'label'"), false,
                 true, false, true});
  all.push_back(
      {"EuclideanLoss", kRows, Layer("EuclideanLoss", "loss_weight: 0", both), false, true, true});
  const std::string labelled = "bottom: 'x' bottom: 'label'";
  all.push_back({"SoftmaxWithLoss, weighted", "shape { dim: 5 dim: 4 }",
                 Layer("SoftmaxWithLoss",
                       "loss_weight: 0 loss_param { weight_by_label_freqs: true class_weighting: "
                       "0.5 class_weighting: 2 class_weighting: 1 class_weighting: 1.5 }",
                       labelled),
                 false, true, false, true});
  all.push_back({"SigmoidCrossEntropyLoss", kRows,
                 Layer("SigmoidCrossEntropyLoss", "loss_weight: 0", both), false, true, true});
  all.push_back({"SmoothL1Loss", kRows,
                 Layer("SmoothL1Loss", "loss_weight: 0 smooth_l1_loss_param { sigma: 1.5 }", both),
                 false, true, true});
  all.push_back({"ContrastiveLoss", kRows,
                 Layer("ContrastiveLoss", "loss_weight: 0 contrastive_loss_param { margin: 8 }",
                       both + " bottom: 'label'"),
                 false, true, true, true});
  all.push_back({"HingeLoss", kRows,
                 Layer("HingeLoss", "loss_weight: 0 hinge_loss_param { norm: L2 }", labelled),
                 false, true, false, true});
  // The input must not be negative.
  all.push_back(
      {"MultinomialLogisticLoss", kRows,
       "layer { name: 'abs' type: 'AbsVal' bottom: 'x' top: 'a' } " +
           Layer("MultinomialLogisticLoss", "loss_weight: 0", "bottom: 'a' bottom: 'label'"),
       false, true, false, true});
  // The matrix is four rows of x2.
  all.push_back({"InfogainLoss", "shape { dim: 5 dim: 4 }",
                 "layer { name: 'cut' type: 'Slice' bottom: 'x2' top: 'h' top: 'rest' "
                 "slice_param { axis: 0 slice_point: 4 } } " +
                     Layer("InfogainLoss", "loss_weight: 0", labelled + " bottom: 'h'"),
                 false, true, true, true});
  all.push_back({"Accuracy", kRows, Layer("Accuracy", "", "bottom: 'x' bottom: 'label'"), true,
                 false, false, true});
  AddVisionFamilies(&all);
  AddDetectionFamilies(&all);
  AddFormFamilies(&all);
  AddInferenceFamilies(&all);
  for (Family& family : all) {
    family.spreads = family.layers.find("onvolution'") != std::string::npos;
  }
  AddRecurrentFamilies(&all);
  AddMixtureFamilies(&all);
  return all;
}

std::vector<SelfTestTraining> SelfTestTrainings() {
  const auto product = [](const std::string& bottom, int outputs) {
    return Concat("layer { name: 'ip' type: 'InnerProduct' bottom: '", bottom,
                  "' top: 'y' inner_product_param { num_output: ", outputs, kWeights, " } } ");
  };
  const std::string t_shape = "shape { dim: 5 dim: 9 }";
  std::vector<SelfTestTraining> all;
  for (const char* rule : {"SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam"}) {
    all.push_back({Concat("solver ", rule), rule, kRows, t_shape, product("x", 9)});
  }
  // So many that their squares are added in several rounds.
  all.push_back({"solver SGD, many parameters", "SGD", "shape { dim: 1 dim: 1001 }",
                 "shape { dim: 1 dim: 1050 }", product("x", 1050)});
  // BatchNorm, Scale and ReLU are one step.
  all.push_back(
      {"solver SGD, normalized", "SGD", "shape { dim: 5 dim: 4 dim: 6 dim: 6 }", t_shape,
       "layer { name: 'conv' type: 'Convolution' bottom: 'x' top: 'a' convolution_param { "
       "num_output: 16 kernel_size: 3 " +
           std::string(kWeights) +
           "} } "
           "layer { name: 'norm' type: 'BatchNorm' bottom: 'a' top: 'b' } "
           "layer { name: 'scale' type: 'Scale' bottom: 'b' top: 'c' scale_param { "
           "bias_term: true } } "
           "layer { name: 'relu' type: 'ReLU' bottom: 'c' top: 'c' } " +
           product("c", 9)});
  return all;
}

}  // namespace caffe

#include "commands/self_test.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/host_level.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/io/proto_io.hpp"
#include "caffe/library/element_function.hpp"
#include "caffe/net/net.hpp"
#include "caffe/quant/histogram.hpp"
#include "caffe/solver/solver.hpp"

namespace caffe {
namespace {

constexpr char kImages[] = "shape { dim: 3 dim: 4 dim: 9 dim: 9 }";
constexpr char kEvenImages[] = "shape { dim: 3 dim: 4 dim: 10 dim: 10 }";
constexpr char kRows[] = "shape { dim: 5 dim: 70 }";
constexpr char kWeights[] =
    " weight_filler { type: 'uniform' min: -0.2 max: 0.2 }"
    " bias_filler { type: 'uniform' min: -0.2 max: 0.2 } ";

// One layer or a few between the input x (and x2, and labels below 4) and the blob y.
struct Family {
  const char* name;
  std::string shape;
  std::string layers;
  bool quantized = false;
  bool gradient = true;
  bool second = false;  // reads x2, of the shape of x
  bool labels = false;  // reads `label`, one for each item of the first axis
  bool rois = false;    // reads `rois`, regions of the images
  // Libraries compute a value from those of its neighbours, too: Winograd's convolution, products.
  bool spreads = false;
};

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
  all->push_back(
      {"Interp", kImages, Layer("Interp", "interp_param { height: 13 width: 5 pad_beg: -1 }")});
  all->push_back({"Upsample", kImages, Layer("Upsample", "upsample_param { scale: 2 }")});
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

// Both experts are selected: which ones have the largest probabilities could depend on rounding.
// The weights are constant, as those of RNN.
std::string MixtureOfExperts() {
  const std::string input =
      "layer { name: 'in' type: 'Input' top: 'in' input_param { shape { dim: 1 dim: 70 } } } ";
  const auto product = [](const std::string& top, int outputs, double weight) {
    return Concat("layer { name: '", top, "' type: 'InnerProduct' bottom: 'in' top: '", top,
                  "' inner_product_param { num_output: ", outputs,
                  " weight_filler { type: 'constant' value: ", weight, " } } } ");
  };
  return Layer("MOE", "moe_param { gating_net { " + input + product("score", 2, 0.01) +
                          "layer { name: 'gate' type: 'Softmax' bottom: 'score' top: 'gate' } } "
                          "expert_net { " +
                          input + product("out", 6, 0.05) +
                          "} expert_instances: 2 select_experts: 2 }");
}

// The largest numbers of a type, infinities, NaN and the smallest number, at some places of the
// first item. The largest ones are apart from each other, so that sums do not depend on their
// order.
void PutExtremes(DataType type, int64_t item, std::vector<double>* values) {
  const double largest = type == kHalf       ? 65504
                         : type == kBfloat16 ? 0x1.fep127
                         : type == kDouble   ? std::numeric_limits<double>::max()
                                             : std::numeric_limits<float>::max();
  const double smallest = type == kHalf ? 0x1p-24 : type == kDouble ? 0x1p-1074 : 0x1p-133;
  const double extremes[] = {largest,  NAN,      -INFINITY, smallest,
                             -largest, INFINITY, -smallest, -0.0};
  for (int64_t i = 0, e = 0; i < std::min<int64_t>(item, std::ssize(*values)); i += 13, ++e) {
    (*values)[i] = extremes[e % std::ssize(extremes)];
  }
}

std::vector<Family> Families() {
  std::vector<Family> all;
  const auto neuron = [&all](const char* type, const std::string& parameter = "",
                             bool quantized = false) {
    all.push_back({type, kImages, Layer(type, parameter), quantized});
  };
  for (const ElementFunction::Kind kind : ElementFunction::Kinds()) {
    const ElementFunction::Row& row = ElementFunction::RowOf(kind);
    if (!row.summary.empty() && row.GradientReads('d')) neuron(row.name.c_str());
  }
  neuron("Clip", "clip_param { min: -0.4 max: 0.6 }");
  neuron("Dropout", "dropout_param { dropout_ratio: 0.4 }");
  neuron("ELU", "elu_param { alpha: 0.5 }");
  neuron("Exp", "exp_param { base: 2 scale: 0.5 shift: 0.1 }");
  neuron("Log", "log_param { base: 2 scale: 0.5 shift: 3 }");
  neuron("Noise", "noise_param { sigma: 0.5 additive: true }");
  neuron("Power", "power_param { power: 1.5 scale: 0.5 shift: 2 }");
  neuron("PReLU");
  neuron("ReLU", "relu_param { negative_slope: 0.2 }", true);
  neuron("ReLU6", "relu6_param { negative_slope: 0.2 }");
  neuron("Scale", "scale_param { bias_term: true filler { type: 'uniform' min: -1 max: 1 } }");
  neuron("Bias", "bias_param { filler { type: 'uniform' min: -1 max: 1 } }");
  neuron("BatchNorm");
  neuron("Softmax");
  all.push_back({"LRN across", kImages, Layer("LRN", "lrn_param { local_size: 3 alpha: 0.5 }")});
  all.push_back(
      {"LRN within", kImages,
       Layer("LRN", "lrn_param { local_size: 3 alpha: 0.5 norm_region: WITHIN_CHANNEL }")});
  const std::string both = "bottom: 'x' bottom: 'x2'";
  all.push_back({"Eltwise, SUM", kImages,
                 Layer("Eltwise", "eltwise_param { operation: SUM coeff: 0.5 coeff: -2 }", both),
                 false, true, true});
  all.push_back({"Eltwise, PROD", kImages,
                 Layer("Eltwise", "eltwise_param { operation: PROD }", both), false, true, true});
  all.push_back({"Eltwise, MAX", kImages,
                 Layer("Eltwise", "eltwise_param { operation: MAX }", both), false, true, true});
  all.push_back({"Concat", kImages, Layer("Concat", "", both), false, true, true});
  all.push_back({"Slice", kImages,
                 "layer { name: 'tested' type: 'Slice' bottom: 'x' top: 'a' top: 'b' "
                 "slice_param { slice_point: 1 } } "
                 "layer { name: 'back' type: 'Concat' bottom: 'b' bottom: 'a' top: 'y' }"});
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
  const auto moves = [&all](const char* type, const std::string& parameter,
                            const std::string& more = "", const std::string& bottom = "") {
    all.push_back({type, kImages,
                   "layer { name: 'codes' type: 'Pooling' bottom: 'x' top: 'c' "
                   "pooling_param { kernel_size: 1 } } " +
                       more + Layer(type, parameter, "bottom: 'c' " + bottom),
                   true, true, !more.empty()});
  };
  moves("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }");
  moves("ShuffleChannel", "shuffle_channel_param { group: 2 }");
  moves("Tile", "tile_param { tiles: 2 }");
  moves("Crop", "crop_param { offset: 1 }",
        "layer { name: 'small' type: 'Pooling' bottom: 'x2' top: 'small' "
        "pooling_param { kernel_size: 3 } } ",
        "bottom: 'small'");
  all.push_back({"Threshold", kImages, Layer("Threshold", "threshold_param { threshold: 0.3 }"),
                 false, false});
  all.push_back({"ArgMax", kImages, Layer("ArgMax", "argmax_param { axis: 1 }"), false, false});
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
                                               kWeights, " }"))});
  all.push_back({"Pooling, MAX", kImages,
                 Layer("Pooling", "pooling_param { kernel_size: 3 stride: 2 pad: 1 }"), true});
  all.push_back({"Pooling, MAX 2x2", kEvenImages,
                 Layer("Pooling", "pooling_param { kernel_size: 2 stride: 2 }"), true});
  all.push_back({"Pooling, AVE", kImages,
                 Layer("Pooling", "pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }")});
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
  all.push_back({"Accuracy", kRows, Layer("Accuracy", "", "bottom: 'x' bottom: 'label'"), false,
                 false, false, true});
  AddVisionFamilies(&all);
  for (Family& family : all) {
    family.spreads = family.layers.find("onvolution'") != std::string::npos;
  }
  AddRecurrentFamilies(&all);
  all.push_back({"MOE", kRows, MixtureOfExperts()});
  return all;
}

const char* const kRules[] = {"SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam"};

// Numbers in (-1, 1), multiples of 1/128 that differ along the first axes and are never 0.
std::vector<double> Numbers(int64_t count, int64_t seed) {
  std::vector<double> values(count);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t step = (i * 37 + seed * 53 + i / 7) % 254;
    values[i] = static_cast<double>(step < 127 ? step - 127 : step - 126) / 128;
  }
  return values;
}

// Codes of a quantized blob, as stored.
std::vector<double> Codes(const BlobBase& blob) {
  const int bytes = static_cast<int>(blob.type().bytes());
  const auto* data = static_cast<const unsigned char*>(blob.host_data());
  std::vector<double> codes(blob.count());
  for (size_t i = 0; i < codes.size(); ++i) {
    unsigned code = 0;
    std::memcpy(&code, data + i * bytes, bytes);  // little endian
    codes[i] = code;
  }
  return codes;
}

using Values = std::vector<std::pair<std::string, std::vector<double>>>;

NetParameter NetOf(const Family& family, DataType type) {
  const auto input = [](const std::string& name, const std::string& shape) {
    return Concat("layer { name: '", name, "' type: 'Input' top: '", name, "' input_param { ",
                  shape, " } } ");
  };
  std::string text = "force_backward: true " + input("x", family.shape);
  if (family.second) text += input("x2", family.shape);
  if (family.labels) text += input("label", "shape { dim: 5 }");
  if (family.rois) text += input("rois", "shape { dim: 3 dim: 5 }");
  text += family.layers;
  // With this loss the gradient of y is y itself.
  if (family.gradient && type.is_float()) {
    text +=
        " layer { name: 'square' type: 'Power' bottom: 'y' top: 'square' loss_weight: 0.5 "
        "power_param { power: 2 } }";
  }
  NetParameter net;
  ParseTextProto(text, "self-test", &net);
  net.set_data_type(static_cast<DataTypeProto>(type.info().proto));
  return net;
}

std::unique_ptr<Net> MakeNet(const Family& family, DataType type, Device* device) {
  NetOptions options;
  options.device = device;
  options.seed = 1;
  options.phase = type.is_float() ? TRAIN : TEST;
  return std::make_unique<Net>(NetOf(family, type), options);
}

void FillInputs(const Family& family, Net* net, bool extreme = false) {
  int64_t seed = 1;
  for (BlobBase* blob : net->input_blobs()) {
    std::vector<double> values = Numbers(blob->count(), seed++);
    if (extreme && blob == net->BlobByName("x").get()) {
      PutExtremes(blob->type(), blob->count() / blob->shape(0), &values);
    }
    if (family.labels && blob == net->BlobByName("label").get()) {
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 4);
    }
    if (family.rois && blob == net->BlobByName("rois").get()) {
      values = {2, 0, 0, 17, 17, 0, 3, 5, 12, 11, 2, -4, 8, 9, 30};
      if (extreme) {
        const std::vector<double> region{0, -INFINITY, NAN, INFINITY, 3e38};
        std::copy(region.begin(), region.end(), values.begin());
      }
    }
    blob->SetData(values);
  }
}

// The numbers that the codes of y mean, and y in double with the same weights, clamped to the range
// of codes. The unit is the difference of two neighbouring codes.
std::pair<Values, Values> RunDecoded(const Family& family, DataType type, Device* device) {
  auto exact = MakeNet(family, kDouble, device), net = MakeNet(family, type, device);
  NetParameter weights;
  exact->ToProto(&weights);
  net->CopyTrainedLayersFrom(weights);
  net->UsePlaceholderRanges();
  for (Net* each : {exact.get(), net.get()}) {
    FillInputs(family, each);
    each->Forward();
  }
  const BlobBase& y = *net->BlobByName("y");
  const QuantRange range = y.range();
  std::vector<double> codes = Codes(y), expected = exact->BlobByName("y")->DataAsDouble();
  const double last = static_cast<double>(type.info().code_max);
  for (double& code : codes) code -= range.zero;
  for (double& value : expected) {
    value = std::clamp(value / range.scale, 0.0 - range.zero, last - range.zero);
  }
  return {{{"y", codes}}, {{"y", expected}}};
}

Values RunNet(const Family& family, DataType type, Device* device, bool extreme = false) {
  const auto made = MakeNet(family, type, device);
  Net& net = *made;
  if (!type.is_float()) net.UsePlaceholderRanges();
  FillInputs(family, &net, extreme);
  net.Forward();
  const BlobBase& y = *net.BlobByName("y");
  Values values{{"y", type.is_float() ? y.DataAsDouble() : Codes(y)}};
  if (!family.gradient || !type.is_float()) return values;
  net.ClearParamDiffs();
  net.Backward();
  values.emplace_back("gradient of x", net.BlobByName("x")->DiffAsDouble());
  if (family.second) values.emplace_back("gradient of x2", net.BlobByName("x2")->DiffAsDouble());
  for (size_t i = 0; i < net.learnable_params().size(); ++i) {
    values.emplace_back(Concat("gradient of parameter ", i),
                        net.learnable_params()[i]->DiffAsDouble());
  }
  return values;
}

// Ranges and histograms of extreme values, in several parts.
Values RunObservers(DataType type, Device* device) {
  const Family family{"", "shape { dim: 2 dim: 9000 }", Layer("Power", "power_param { scale: 2 }")};
  const auto net = MakeNet(family, type, device);
  net->set_observe(true);
  FillInputs(family, net.get(), true);
  net->Forward();
  Values values;
  for (const auto& [name, range] : net->Ranges()) {
    values.emplace_back("range of " + name, std::vector<double>{range.low, range.high});
  }
  for (const auto& [name, histogram] : net->Histograms()) {
    values.emplace_back("histogram of " + name,
                        std::vector<double>(histogram.counts.begin(), histogram.counts.end()));
  }
  return values;
}

Values RunSolver(const std::string& rule, DataType type, Device* device, bool extreme = false) {
  SolverParameter parameter;
  const bool adam = rule == "Adam";
  ParseTextProto(
      Concat(
          "type: '", rule, "' base_lr: 0.01 lr_policy: 'fixed' weight_decay: 0.01 ",
          "clip_gradients: 0.5 loss_scale: 8 random_seed: 1 ",
          adam || rule == "SGD" || rule == "Nesterov" || rule == "AdaDelta" ? "momentum: 0.9 " : "",
          "net_param { ", "layer { name: 'in' type: 'Input' top: 'x' top: 't' input_param { ",
          kRows, " shape { dim: 5 dim: 9 } } } ",
          "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' ",
          "inner_product_param { num_output: 9 ", kWeights, " } } ",
          "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'y' bottom: 't' top: 'loss' } }"),
      "self-test", &parameter);
  parameter.set_data_type(static_cast<DataTypeProto>(type.info().proto));
  Solver solver(parameter, device);
  // No gradient is near 0: update rules that divide by its size would amplify rounding errors.
  for (const char* name : {"x", "t"}) {
    const auto& blob = solver.net()->BlobByName(name);
    std::vector<double> values = Numbers(blob->count(), 3);
    for (double& value : values) value = *name == 'x' ? std::abs(value) / 4 + 0.25 : value + 6;
    if (extreme && *name == 'x') PutExtremes(type, 1, &values);
    blob->SetData(values);
  }
  solver.Step(3);
  Values values;
  for (size_t i = 0; i < solver.net()->learnable_params().size(); ++i) {
    values.emplace_back(Concat("parameter ", i),
                        solver.net()->learnable_params()[i]->DataAsDouble());
  }
  return values;
}

// Sums have another order, and intermediate results are rounded: several units in the last place,
// for values around 1.
double Tolerance(DataType type, bool against_double) {
  if (!type.is_float()) return 0;
  if (type == kDouble) return 1e-10;
  if (type == kFloat) return 5e-5;
  const double step = type == kHalf ? 0x1p-11 : 0x1p-8;
  return (against_double ? 32 : 16) * step;
}

// The largest error of a sum of up to 70 rounded products, in codes.
constexpr double kCodes = 3;

void Compare(const Values& values, const Values& reference, double tolerance, SelfTestRow* row,
             bool absolute = false) {
  row->passed = values.size() == reference.size();
  if (!row->passed) row->message = "the numbers of results differ";
  for (size_t v = 0; v < std::min(values.size(), reference.size()); ++v) {
    const auto& [name, actual] = values[v];
    const auto& expected = reference[v].second;
    for (size_t i = 0; i < std::max(actual.size(), expected.size()); ++i) {
      const double a = i < actual.size() ? actual[i] : NAN;
      const double b = i < expected.size() ? expected[i] : NAN;
      const double size = absolute ? 1 : std::max(1.0, std::abs(b));
      const double difference = a == b ? 0 : std::abs(a - b) / size;
      const bool good = difference <= tolerance;  // false for NaN
      if (!good && row->passed) {
        row->message = Concat(name, ", element ", i, ": ", a, " instead of ", b);
        row->passed = false;
      }
      if (!(difference <= row->difference)) row->difference = difference;
    }
  }
}

// The same for results of extreme values: NaN equals NaN, and of sums that overflow only some need
// be infinite. What is computed from other values is compared as usual. `first`: of families that
// spread values, the part of the array that is not compared is 1 / first.
void CompareExtremes(const Values& values, const Values& reference, DataType type, double tolerance,
                     int64_t first, SelfTestRow* row) {
  const double huge = type == kHalf ? 0x1p12 : type == kDouble ? 0x1p1000 : 0x1p100;
  const auto large = [huge](double v) { return !(std::abs(v) < huge); };  // or NaN
  row->passed = values.size() == reference.size();
  if (!row->passed) row->message = "the numbers of results differ";
  for (size_t v = 0; v < std::min(values.size(), reference.size()); ++v) {
    const auto& [name, actual] = values[v];
    const auto& expected = reference[v].second;
    if (first > 0 && name.starts_with("gradient of parameter")) continue;
    for (size_t i = first > 0 ? actual.size() / first : 0;
         i < std::max(actual.size(), expected.size()); ++i) {
      const double a = i < actual.size() ? actual[i] : 0;
      const double b = i < expected.size() ? expected[i] : -1;
      const bool same = a == b || (large(a) && large(b));
      const double difference = same ? 0 : std::abs(a - b) / std::max(1.0, std::abs(b));
      if (!(difference <= tolerance) && row->passed) {
        row->message = Concat(name, ", element ", i, ": ", a, " instead of ", b);
        row->passed = false;
      }
      if (!(difference <= row->difference)) row->difference = difference;
    }
  }
}

constexpr char kExtreme[] = ", extreme values";

// During its lifetime the CPU's kernels are those of the lowest instruction level.
class LowestLevel {
 public:
  explicit LowestLevel(bool lowers) : level_(lowers ? HostLevel() : "") {
    if (lowers) SetHostLevel(HostLevels().front());
  }
  ~LowestLevel() {
    if (!level_.empty()) SetHostLevel(level_);
  }
  LowestLevel(const LowestLevel&) = delete;
  LowestLevel& operator=(const LowestLevel&) = delete;

 private:
  const std::string level_;
};

}  // namespace

std::set<std::string> SelfTestLayers() {
  std::set<std::string> types;
  for (const Family& family : Families()) {
    const NetParameter net = NetOf(family, kFloat);
    for (const LayerParameter& layer : net.layer()) types.insert(layer.type());
  }
  return types;
}

std::vector<std::string> SelfTestFamilies() {
  std::vector<std::string> names;
  for (const Family& family : Families()) names.push_back(family.name);
  for (const char* rule : kRules) names.push_back(Concat("solver ", rule));
  const size_t count = names.size();
  for (size_t i = 0; i < count; ++i) names.push_back(names[i] + kExtreme);
  names.push_back("Observers");
  return names;
}

void SelfTest(Device* device, const std::vector<DataType>& types,
              const std::function<void(const SelfTestRow&)>& report) {
  Device* cpu = Runtime::Get().cpu();
  for (DataType type : types) {
    // The CPU's narrow types are compared with its double, double with float, and the numbers that
    // its codes mean with double.
    const bool against_double = device == cpu;
    const DataType reference = !against_double ? type : type == kDouble ? kFloat : kDouble;
    const auto report_row = [&](const std::string& name, const auto& compare) {
      SelfTestRow row;
      row.device = device->info().id;
      row.type = type.name();
      row.family = name;
      const auto start = std::chrono::steady_clock::now();
      try {
        compare(&row);
      } catch (const std::exception& error) {
        row.passed = false;
        row.message = error.what();
      }
      row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      report(row);
    };
    const auto test = [&](const std::string& name, double tolerance, const auto& run) {
      report_row(name, [&](SelfTestRow* row) {
        Compare(run(type, device), run(reference, cpu), tolerance, row);
      });
    };
    // Extreme values: another device is compared with the CPU, the CPU with its kernels for older
    // processors, in the same type.
    const auto test_extremes = [&](const std::string& name, int64_t first, const auto& run) {
      report_row(name, [&](SelfTestRow* row) {
        const Values values = run(device);
        const LowestLevel level(against_double);
        CompareExtremes(values, run(cpu), type, Tolerance(type, false), first, row);
      });
    };
    const double tolerance = Tolerance(reference == kFloat ? kFloat : type, against_double);
    if (type == kDouble && !device->info().fp64) {
      SelfTestRow row;
      row.device = device->info().id;
      row.type = type.name();
      row.family = "all";
      row.skipped = true;
      row.message = "the device has no double precision";
      report(row);
      continue;
    }
    for (const Family& family : Families()) {
      if (!type.is_float() && !family.quantized) continue;
      test_extremes(family.name + std::string(kExtreme), family.spreads ? 3 : 0,
                    [&](Device* d) { return RunNet(family, type, d, true); });
      if (!type.is_float() && against_double) {
        report_row(family.name, [&](SelfTestRow* row) {
          const auto [codes, expected] = RunDecoded(family, type, device);
          Compare(codes, expected, kCodes, row, true);
        });
        continue;
      }
      test(family.name, tolerance, [&](DataType t, Device* d) { return RunNet(family, t, d); });
    }
    if (!type.is_float()) continue;
    for (const char* rule : kRules) {
      // The rate and the clipping factor are floats in every type.
      test(Concat("solver ", rule), std::max(tolerance, 1e-6),
           [&](DataType t, Device* d) { return RunSolver(rule, t, d); });
      test_extremes(Concat("solver ", rule, kExtreme), 0,
                    [&](Device* d) { return RunSolver(rule, type, d, true); });
    }
    test_extremes("Observers", 0, [&](Device* d) { return RunObservers(type, d); });
  }
}

}  // namespace caffe

#include "caffe/io/foreign_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

constexpr std::string_view kBvlc = "BVLC Caffe", kOpenCl = "the OpenCL fork of Caffe", kSsd = "SSD",
                           kRcnn = "Faster R-CNN", kRfcn = "R-FCN", kSegNet = "SegNet",
                           kDeepLab = "DeepLab", kYolo = "ports of YOLO", kNvidia = "NVIDIA Caffe",
                           kIntel = "Intel Caffe", kRistretto = "Ristretto", kFlowNet = "FlowNet";

constexpr std::string_view kPython =
    "write it as a layer in Python (docs/python.md, \"Layers in Python\")";
constexpr std::string_view kSource =
    "to run the net replace it by an Input layer; to train it write the data to a file for "
    "HDF5Data, or write the layer in Python (docs/python.md, \"Layers in Python\")";
constexpr std::string_view kBoxes =
    "end the net at its bottoms and compute the boxes in NumPy, or write it as a layer in Python "
    "(docs/python.md, \"Layers in Python\")";
constexpr std::string_view kFixedPoint =
    "use the layer without the suffix Ristretto, whose parameters are the same, and a quantized "
    "data_type for integer arithmetic";
constexpr std::string_view kPyTorch = "PyTorch", kTensorFlow = "TensorFlow", kKeras = "Keras";
constexpr std::string_view kHardSwish =
    "use Power (shift 3), ReLU6, Power (scale 0.1666667) and Eltwise (operation PROD) of the "
    "bottom "
    "and their result";
constexpr std::string_view kMklNorm = "use BatchNorm, followed by Scale if it has weights";

// Sorted by origin. Remove a row when its layer is added: a test compares with the registry.
constexpr std::array kLayers{
    ForeignLayer{"BatchReindex", kBvlc, "", kPython},
    ForeignLayer{"Embed", kBvlc, "",
                 "use InnerProduct on one-hot vectors, which gives the same result, or write it as "
                 "a layer in Python (docs/python.md, \"Layers in Python\")"},
    ForeignLayer{"Filter", kBvlc, "", kPython},
    ForeignLayer{"Im2col", kBvlc, "", kPython},
    ForeignLayer{"MVN", kBvlc, "", kPython},
    ForeignLayer{"SPP", kBvlc, "",
                 "for one size of image use a Pooling and a Flatten layer for each level and a "
                 "Concat after them"},
    ForeignLayer{"WindowData", kBvlc, "", kSource},

    ForeignLayer{"Affinity", kOpenCl, "", kPython},
    ForeignLayer{"ConnectedComponent", kOpenCl, "", kPython},
    ForeignLayer{"MalisLoss", kOpenCl, "malis_param", kPython},
    ForeignLayer{"MergeCrop", kOpenCl, "",
                 "crop bottom 1 to its centre with a Crop layer (bottom: bottom 1, then bottom 0; "
                 "axis: 2; offset: half of the difference of the heights, and half of that of the "
                 "widths, because the default 0 takes a corner), then join bottom 0 and its top by "
                 "Concat (operation STACK) or Eltwise (operation ADD); the fork gives bottom 1 no "
                 "gradient unless `backward` is true for it: to train the same, write "
                 "propagate_down: false twice in the Crop layer"},

    ForeignLayer{"AnnotatedData", kSsd, "", kSource},
    ForeignLayer{"DetectionEvaluate", kSsd, "", kBoxes},
    ForeignLayer{"MultiBoxLoss", kSsd, "", kPython},
    ForeignLayer{"VideoData", kSsd, "", kSource},

    ForeignLayer{"ROIAlign", kRcnn, "", kPython},
    ForeignLayer{"DeformableConvolution", kRfcn, "deformable_convolution_param", kPython},

    ForeignLayer{"DenseImageData", kSegNet, "dense_image_data_param", kSource},
    ForeignLayer{"SpatialDropout", "ENet and Intel Caffe", "spatial_dropout_param",
                 "to run the net leave it out, which changes no result in phase TEST; to train it "
                 "write it as a layer in Python (docs/python.md, \"Layers in Python\")"},
    ForeignLayer{"DenseCRF", kDeepLab, "dense_crf_param", kPython},
    ForeignLayer{"ImageSegData", kDeepLab, "", kSource},
    ForeignLayer{"MatRead", kDeepLab, "mat_read_param", kPython},
    ForeignLayer{"MatWrite", kDeepLab, "mat_write_param",
                 "leave it out and save the blob from Python (scipy.io.savemat)"},
    ForeignLayer{"SegAccuracy", "DeepLab and PSPNet", "seg_accuracy_param", kPython},
    ForeignLayer{"UniqueLabel", kDeepLab, "unique_label_param", kPython},

    ForeignLayer{"DetectionLoss", kYolo, "", kPython},
    ForeignLayer{"EvalDetection", kYolo, "", kBoxes},
    ForeignLayer{"BoxData", kYolo, "", kSource},
    ForeignLayer{"RegionLoss", kYolo, "", kPython},
    ForeignLayer{"Yolov3", kYolo, "", kPython},

    ForeignLayer{"DetectNetTransformation", kNvidia, "detectnet_groundtruth_param", kSource},
    ForeignLayer{"L1Loss", "NVIDIA Caffe and FlowNet", "l1_loss_param",
                 "use Eltwise (coeff 1 and -1), AbsVal and Reduction (operation MEAN or SUM) with "
                 "a loss_weight"},
    ForeignLayer{"TRT", kNvidia, "trt_param", "use the net that TensorRT was given"},

    ForeignLayer{"MKLBatchNorm", kIntel, "", kMklNorm},
    ForeignLayer{"MnActivation", kIntel, "mn_activation_param",
                 "leave it out: it moves blobs between machines"},

    ForeignLayer{"ConvolutionRistretto", kRistretto, "", kFixedPoint},
    ForeignLayer{"DeconvolutionRistretto", kRistretto, "", kFixedPoint},
    ForeignLayer{"FcRistretto", kRistretto, "",
                 "use InnerProduct, whose parameters are the same, and a quantized data_type for "
                 "integer arithmetic"},
    ForeignLayer{"LRNRistretto", kRistretto, "", kFixedPoint},

    ForeignLayer{"Correlation", kFlowNet, "correlation_param", kPython},
    ForeignLayer{"CustomData", kFlowNet, "", kSource},
    ForeignLayer{"DataAugmentation", kFlowNet, "augmentation_param", kSource},
    ForeignLayer{"Downsample", kFlowNet, "downsample_param", kPython},
    ForeignLayer{"FlowWarp", kFlowNet, "flow_warp_param", kPython},
    ForeignLayer{"Resample", kFlowNet, "resample_param", kPython},

    ForeignLayer{"CenterLoss", "a fork for faces", "center_loss_param", kPython},
    ForeignLayer{"ImResize", "OpenPose", "imresize_param",
                 "end the net at its bottom and resize in NumPy"},
    ForeignLayer{"MarginInnerProduct", "SphereFace", "margin_inner_product_param",
                 "to run the net end it at the bottom, which is the embedding; to train it write "
                 "the layer in Python (docs/python.md, \"Layers in Python\")"},
    ForeignLayer{"MultiStageMeanfield", "CRF-RNN", "multi_stage_meanfield_param", kPython},
    ForeignLayer{"Nms", "OpenPose", "nms_param", kBoxes},
    ForeignLayer{"SeLU", "a fork", "selu_param",
                 "use ELU with alpha 1.67326 and Power with scale 1.0507 after it"},
    ForeignLayer{"SpatialTransformer", "a fork", "st_param", kPython},
    ForeignLayer{"TripletLoss", "a fork for faces", "triplet_loss_param", kPython},

    // Functions whose names are near those of other functions, and names that Caffe never had.
    ForeignLayer{"CELU", kPyTorch, "", kPython},
    ForeignLayer{"CReLU", kTensorFlow, "",
                 "use Concat of the bottom and of its negative (Power with scale -1), and ReLU"},
    ForeignLayer{
        "GELU", kPyTorch, "",
        "use Swish with beta 1.702, which differs by at most 0.021, or write it as a layer "
        "in Python (docs/python.md, \"Layers in Python\")"},
    ForeignLayer{"GLU", kPyTorch, "", "use Slice, Sigmoid and Eltwise (operation PROD)"},
    ForeignLayer{"HSwish", kPyTorch, "", kHardSwish},
    ForeignLayer{"HardSwish", kPyTorch, "", kHardSwish},
    ForeignLayer{"LeakyReLU", kPyTorch, "", "use ReLU with negative_slope"},
    ForeignLayer{"Mish", "Darknet and PyTorch", "mish_param",
                 "use BNLL, TanH and Eltwise (operation PROD) of the bottom and their result"},
    ForeignLayer{"RReLU", kPyTorch, "",
                 "to run the net use ReLU with the mean of the slopes; to train it write the layer "
                 "in Python (docs/python.md, \"Layers in Python\")"},
    ForeignLayer{"SReLU", kKeras, "", kPython},
    ForeignLayer{"SiLU", kPyTorch, "", "use Swish, which is the same function"},
    ForeignLayer{"SoftmaxLoss", "the V1 format", "", "use SoftmaxWithLoss, its present name"},
    ForeignLayer{"Softplus", kPyTorch, "", "use BNLL, which is the same function"},
};

constexpr std::string_view kLoss = "caffe.LossParameter", kSolver = "caffe.SolverParameter",
                           kTransform = "caffe.TransformationParameter",
                           kConvolution = "caffe.ConvolutionParameter",
                           kPooling = "caffe.PoolingParameter",
                           kBatchNorm = "caffe.BatchNormParameter",
                           kImageData = "caffe.ImageDataParameter", kData = "caffe.DataParameter";
constexpr std::string_view kPolicies =
    "remove it; lr_policy is one of fixed, step, exp, inv, multistep, poly, sigmoid";
constexpr std::string_view kLarc = "remove it; each layer's rate is the global one times lr_mult";
constexpr std::string_view kAugment =
    "resize and distort the images before they are written to the database";
constexpr std::string_view kFusedRelu = "write a ReLU layer after it";
constexpr std::string_view kFusedScale = "write a Scale layer with bias_term: true after it";
constexpr std::string_view k3d = "pooling works on the last two of four axes";

constexpr std::array kFields{
    ForeignField{kSolver, "rampup_interval", kNvidia, kPolicies},
    ForeignField{kSolver, "rampup_lr", kNvidia, kPolicies},
    ForeignField{kSolver, "min_lr", kNvidia, kPolicies},
    ForeignField{kSolver, "plateau_winsize", "SSD, NVIDIA and Intel Caffe", kPolicies},
    ForeignField{kSolver, "momentum_policy", kNvidia, "remove it; momentum is constant"},
    ForeignField{kSolver, "max_momentum", kNvidia, "remove it; momentum is constant"},
    ForeignField{kSolver, "momentum_power", kNvidia, "remove it; momentum is constant"},
    ForeignField{kSolver, "weight_decay_policy", kNvidia, "remove it; weight_decay is constant"},
    ForeignField{kSolver, "weight_decay_power", kNvidia, "remove it; weight_decay is constant"},
    ForeignField{kSolver, "max_weight_decay", kNvidia, "remove it; weight_decay is constant"},
    ForeignField{kSolver, "larc", kNvidia, kLarc},
    ForeignField{kSolver, "larc_policy", kNvidia, kLarc},
    ForeignField{kSolver, "larc_eta", kNvidia, kLarc},
    ForeignField{kSolver, "larc_turbo", kNvidia, kLarc},
    ForeignField{kSolver, "local_lr_auto", kIntel, kLarc},
    ForeignField{kSolver, "local_gw_ratio", kIntel, kLarc},
    ForeignField{kSolver, "warmup_iter", kIntel, kPolicies},
    ForeignField{kSolver, "warmup_start_lr", kIntel, kPolicies},
    ForeignField{kSolver, "stagelr", kIntel, kPolicies},
    ForeignField{kSolver, "stageiter", kIntel, kPolicies},
    ForeignField{kSolver, "test_offset", kIntel, "remove it; tests follow test_interval"},
    ForeignField{kSolver, "disabled_update", kIntel, "use lr_mult: 0 for parameters that stay"},
    ForeignField{kSolver, "test_and_snapshot_last_epochs", kNvidia,
                 "remove it; use test_interval and snapshot"},

    ForeignField{"caffe.NetParameter", "bn_stats_batch_size", kIntel,
                 "remove it; BatchNorm takes the whole batch"},
    ForeignField{"caffe.FillerParameter", "scale", kIntel,
                 "use a filler that takes std or min and max"},
    ForeignField{"caffe.ELUParameter", "lambda", kNvidia,
                 "write a Power layer with this scale after it"},
    ForeignField{"caffe.ReLUParameter", "fuse", kIntel, "remove it; ReLUs are fused where it pays"},
    ForeignField{"caffe.ReshapeParameter", "pixelshuffler", kIntel,
                 "use Reshape, Permute and Reshape"},
    ForeignField{"caffe.InnerProductParameter", "relu", kIntel, kFusedRelu},
    ForeignField{"caffe.InnerProductParameter", "negative_slope", kIntel, kFusedRelu},
    ForeignField{"caffe.DropoutParameter", "sample_weights_test", kSegNet,
                 "remove it for the mean prediction; for samples run the net in phase TRAIN"},
    ForeignField{"caffe.ROIPoolingParameter", "pooled_size", kIntel, "use pooled_h and pooled_w"},

    ForeignField{kConvolution, "relu", kIntel, kFusedRelu},
    ForeignField{kConvolution, "negative_slope", kIntel, kFusedRelu},
    ForeignField{kConvolution, "coeff", kIntel, "write an Eltwise layer after it"},
    ForeignField{kConvolution, "fusion_type", kIntel, "write an Eltwise layer after it"},
    ForeignField{kConvolution, "hole", kDeepLab, "use dilation"},
    ForeignField{kConvolution, "hole_h", kDeepLab, "use dilation"},
    ForeignField{kConvolution, "hole_w", kDeepLab, "use dilation"},

    ForeignField{kPooling, "torch_pooling", kNvidia, "use round_mode: FLOOR"},
    ForeignField{kPooling, "avg_include_pad", kIntel,
                 "remove it if it is true: means count the pixels of the padding"},
    ForeignField{kPooling, "kernel_size_3d", kIntel, k3d},
    ForeignField{kPooling, "stride_3d", kIntel, k3d},
    ForeignField{kPooling, "pad_3d", kIntel, k3d},
    ForeignField{kPooling, "kernel_depth", "C3D", k3d},

    ForeignField{kBatchNorm, "scale_bias", kNvidia, kFusedScale},
    ForeignField{kBatchNorm, "scale_filler", kNvidia, kFusedScale},
    ForeignField{kBatchNorm, "bias_filler", "NVIDIA and Intel Caffe", kFusedScale},
    ForeignField{kBatchNorm, "filler", kIntel, kFusedScale},
    ForeignField{kBatchNorm, "use_weight_bias", kIntel, kFusedScale},
    ForeignField{kBatchNorm, "bias_term", kIntel, kFusedScale},
    ForeignField{kBatchNorm, "stats_batch_size", kIntel,
                 "remove it; BatchNorm takes the whole batch"},
    ForeignField{kBatchNorm, "relu", kIntel, kFusedRelu},

    ForeignField{kLoss, "label_smoothing", "NVIDIA and Intel Caffe",
                 "use InfogainLoss with a matrix of smoothed labels"},
    ForeignField{kData, "shuffle", "NVIDIA and Intel Caffe",
                 "shuffle when the database is made (convert_imageset -shuffle)"},
    ForeignField{kImageData, "short_side", kNvidia, kAugment},
    ForeignField{kImageData, "min_height", kIntel, kAugment},
    ForeignField{kImageData, "min_width", kIntel, kAugment},
    ForeignField{kImageData, "label_type", kDeepLab, kSource},

    ForeignField{kTransform, "img_rand_resize_lower", kNvidia, kAugment},
    ForeignField{kTransform, "img_rand_resize_upper", kNvidia, kAugment},
    ForeignField{kTransform, "rand_resize_ratio_lower", kNvidia, kAugment},
    ForeignField{kTransform, "rand_resize_ratio_upper", kNvidia, kAugment},
    ForeignField{kTransform, "vertical_stretch_lower", kNvidia, kAugment},
    ForeignField{kTransform, "vertical_stretch_upper", kNvidia, kAugment},
    ForeignField{kTransform, "horizontal_stretch_lower", kNvidia, kAugment},
    ForeignField{kTransform, "horizontal_stretch_upper", kNvidia, kAugment},
    ForeignField{kTransform, "interpolation_algo_down", kNvidia, kAugment},
    ForeignField{kTransform, "interpolation_algo_up", kNvidia, kAugment},
    ForeignField{kTransform, "allow_upscale", kNvidia, kAugment},
    ForeignField{kTransform, "random_resize_param", kIntel, kAugment},
    ForeignField{kTransform, "random_aspect_ratio_param", kIntel, kAugment},
    ForeignField{kTransform, "bgr2rgb", kIntel, kAugment},
    ForeignField{kTransform, "pad", kIntel, kAugment},
    ForeignField{kTransform, "flow", kIntel, kAugment},
};

}  // namespace

std::span<const ForeignLayer> ForeignLayers() { return kLayers; }
std::span<const ForeignField> ForeignFields() { return kFields; }

namespace {

int Lower(char c) { return std::tolower(static_cast<unsigned char>(c)); }

}  // namespace

std::string DescribeForeignLayer(std::string_view type) {
  const auto found = std::ranges::find_if(kLayers, [&](const ForeignLayer& layer) {
    return std::ranges::equal(layer.type, type, {}, Lower, Lower);
  });
  if (found == kLayers.end()) return "";
  return Concat(found->type, ": a layer of ", found->origin, ", not in Cortado; ", found->advice);
}

std::string DescribeForeignField(std::string_view message, std::string_view field) {
  if (message == "caffe.LayerParameter") {
    const auto layer = std::ranges::find(kLayers, field, &ForeignLayer::field);
    if (layer != kLayers.end()) return DescribeForeignLayer(layer->type);
  }
  for (const ForeignField& known : kFields) {
    if (known.message != message || known.field != field) continue;
    return Concat(field, ": a field of ", known.origin, ", not in Cortado; ", known.advice);
  }
  return "";
}

}  // namespace caffe

#include <algorithm>
#include <memory>
#include <optional>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/bias.hpp"
#include "caffe/library/generated/code_windows.hpp"
#include "caffe/library/generated/float_gradient.hpp"
#include "caffe/library/generated/float_product.hpp"
#include "caffe/library/generated/float_windows.hpp"
#include "caffe/library/generated/matrix_product.hpp"
#include "caffe/library/generated/vector_product.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/rounding.hpp"

namespace caffe {
namespace {

using Problem = MatrixProduct::Problem;

constexpr int64_t kVectorBytes = 16;
constexpr int64_t kSpan = 8;          // channels that an item of fold_channels computes
constexpr int64_t kMostFolded = 128;  // channels of a folded image

bool IsDepthwise(const ConvDescriptor& d) {
  return d.group > 1 && d.group == d.in_channels && d.group == d.out_channels;
}

// Two groups whose positions, but not whose channels, are whole vectors: as one, with twice the
// products, they fill the columns of a tile, and are read in whole vectors.
bool JoinsGroups(const ConvDescriptor& d) {
  constexpr int64_t kMostOutputs = 32;  // of a group
  const int64_t position = d.in_channels * static_cast<int64_t>(d.in.bytes());
  return d.quantized() && d.group == 2 && !IsDepthwise(d) && d.x_layout == Layout::kNHWC &&
         position % kVectorBytes == 0 && position / 2 % kVectorBytes != 0 &&
         d.out_channels / 2 <= kMostOutputs;
}

// Without a fold.
Problem Plain(const ConvDescriptor& d) {
  Problem p;
  p.type = d.in;
  p.out = d.out;
  p.batch = d.batch;
  p.window = MatrixProduct::Window::Of(d.geometry);
  p.channels = d.in_channels;
  p.out_channels = d.out_channels;
  p.group = d.group;
  p.y_row = d.y_row();
  p.row_groups = d.row_groups;
  p.epilogue = d.epilogue;
  std::copy_n(p.window.kernel, 2, p.plain_kernel);
  p.plain_channels = d.in_channels / d.group;
  if (JoinsGroups(d)) {
    p.joined_groups = d.group;
    p.group = 1;
  }
  return p;
}

// The problem on an image that fold_channels (kernels/conv/fold_spans.h) makes: padding is part of
// it, and with strides each position holds the pixels of a stride, so that a window has as many
// channels as vectors need.
Problem Folded(const ConvDescriptor& d) {
  Problem p = Plain(d);
  MatrixProduct::Window& w = p.window;
  const bool strides = w.dilation[0] == 1 && w.dilation[1] == 1 &&
                       d.in_channels * w.stride[0] * w.stride[1] <= kMostFolded;
  for (int a = 0; a < 2; ++a) {
    p.fold[a] = strides ? w.stride[a] : 1;
    w.kernel[a] = (w.kernel[a] + p.fold[a] - 1) / p.fold[a];
    w.stride[a] /= p.fold[a];
    w.input[a] = (w.output[a] - 1) * w.stride[a] + (w.kernel[a] - 1) * w.dilation[a] + 1;
    w.pad[a] = 0;
  }
  const int64_t vector = kVectorBytes / static_cast<int64_t>(d.in.bytes());
  p.channels = RoundUp(d.in_channels * p.fold[0] * p.fold[1], std::max(vector, kSpan));
  return p;
}

// The problem on few plain channels, which the kernel reads in C order.
std::optional<Problem> OfImages(const ConvDescriptor& d) {
  constexpr int64_t kMostChannels = 4;
  if (d.quantized() || d.x_layout != Layout::kNCHW || d.in_channels > kMostChannels) return {};
  if (d.group != 1) return {};
  return FloatProduct::OfImages(Plain(d));
}

bool NeedsFold(const ConvDescriptor& d) {
  if (OfImages(d)) return false;
  if (d.x_layout == Layout::kNCHW) return true;
  const int64_t vector = MatrixProduct::Vector(Plain(d));
  // One float at a time, for each tap.
  const bool slow = d.in == kFloat && vector == 4 && d.group == 1 && !d.geometry.pointwise();
  return vector == 0 || slow;
}

Problem ProblemOf(const ConvDescriptor& d) {
  if (const auto images = OfImages(d)) return *images;
  return NeedsFold(d) ? Folded(d) : Plain(d);
}

// A call of either product.
void Compute(MatrixProduct* product, DevicePtr x, const ConvArguments& a, DevicePtr) {
  product->Run(x, a.prepared, a.y, *a.quant, a.epilogue.residual, a.offsets);
}
template <class Product>
void Compute(Product* product, DevicePtr x, const ConvArguments& a, DevicePtr workspace) {
  product->Run({x, a.prepared ? a.prepared : a.weights, a.bias, a.y, a.epilogue, 1, 0, a.offsets,
                workspace});
}
void Compute(MatrixProduct* product, const GemmArguments& g) {
  product->Run(g.a, g.prepared, g.c, *g.quant, g.epilogue.residual, g.offsets);
}
template <class Product> void Compute(Product* product, const GemmArguments& g) {
  product->Run({g.a, g.prepared ? g.prepared : g.b, g.bias, g.c, g.epilogue, g.alpha, g.beta,
                g.offsets, g.workspace});
}
int64_t WorkspaceBytes(const MatrixProduct&) { return 0; }
template <class Product> int64_t WorkspaceBytes(const Product& product) {
  return product.workspace_bytes();
}

constexpr int64_t kAlignment = 256;  // of what shares a workspace, or the prepared weights

// Makes the images of a folded problem.
class ImageFold {
 public:
  ImageFold(Device* device, const ConvDescriptor& d, const Problem& folded)
      : descriptor_(d), problem_(folded) {
    ProgramBuilder builder(device, "fold images");
    builder.Types(d.quantized() ? TypeTriple::Equal(d.in) : TypeTriple{kFloat, d.in, d.in})
        .Body("conv/fold_spans");
    // Divisions by them give each element its place.
    const KernelArguments geometry = Geometry();
    for (size_t i = 0; i < geometry.size(); ++i) {
      builder.Fold(kGeometryNames[i], geometry[i].integer);
    }
    fold_ = builder.Build()->CreateKernel("fold_channels");
  }
  // A multiple of kAlignment.
  int64_t bytes() const {
    const MatrixProduct::Window& w = problem_.window;
    return RoundUp(problem_.batch * w.input[0] * w.input[1] * problem_.channels *
                       static_cast<int64_t>(problem_.type.bytes()),
                   kAlignment);
  }
  void Run(DevicePtr from, DevicePtr to, int32_t zero = 0) {
    const MatrixProduct::Window& w = problem_.window;
    const int64_t rows = problem_.batch * w.input[0] * w.input[1];
    KernelArguments arguments{rows};
    const KernelArguments geometry = Geometry();
    arguments.append(geometry.begin(), geometry.end());
    arguments.append({KernelArgument(from, zero), KernelArgument(to, zero)});
    fold_->Launch({rows, problem_.channels}, arguments);
  }

 private:
  static constexpr const char* kGeometryNames[] = {
      "in_h",  "in_w",  "channels", "padded", "fold_h",         "fold_w",
      "pad_h", "pad_w", "out_h",    "out_w",  "channel_stride", "position_stride"};

  KernelArguments Geometry() const {
    const ConvDescriptor& d = descriptor_;
    const MatrixProduct::Window plain = MatrixProduct::Window::Of(d.geometry), &w = problem_.window;
    const bool c_order = d.x_layout == Layout::kNCHW;
    return {plain.input[0],
            plain.input[1],
            d.in_channels,
            problem_.channels,
            problem_.fold[0],
            problem_.fold[1],
            plain.pad[0],
            plain.pad[1],
            w.input[0],
            w.input[1],
            c_order ? d.geometry.input_count() : 1,
            c_order ? 1 : d.in_channels};
  }

  const ConvDescriptor descriptor_;
  const Problem problem_;
  std::unique_ptr<Kernel> fold_;
};

template <class Product> class MatrixConvOp : public ConvOp {
 public:
  MatrixConvOp(Device* device, const ConvDescriptor& d)
      : ConvOp(d), product_(device, ProblemOf(d)) {
    if (NeedsFold(d)) fold_.emplace(device, d, ProblemOf(d));
  }
  const char* library() const override { return "matrix"; }
  int64_t prepared_bytes() const override { return product_.packed_bytes(); }
  void Prepare(DevicePtr weights, DevicePtr prepared) override {
    if (product_.packed_bytes() > 0) product_.Pack(weights, prepared);
  }
  int64_t workspace_bytes() const override { return FoldedBytes() + WorkspaceBytes(product_); }

 protected:
  void DoForward(const ConvArguments& a) override {
    CheckMemory(a.prepared, a.workspace);
    const DevicePtr folded = a.workspace.As(a.x);
    if (fold_) fold_->Run(a.x, folded, a.quant ? a.quant->zero_x : 0);
    const DevicePtr behind = a.workspace ? a.workspace + FoldedBytes() : a.workspace;
    Compute(&product_, fold_ ? folded : a.x, a, behind);
  }
  // The bytes of the workspace before those of the product.
  int64_t FoldedBytes() const { return fold_ ? fold_->bytes() : 0; }

 private:
  Product product_;
  std::optional<ImageFold> fold_;
};

// The gradient of x as a convolution of that of y, whose positions are a stride apart.
Problem GradientOfX(const ConvDescriptor& d) {
  Problem p;
  p.type = p.out = d.in;
  p.batch = d.batch;
  p.transposed = true;
  const auto plain = MatrixProduct::Window::Of(d.geometry);
  MatrixProduct::Window& w = p.window;
  for (int a = 0; a < 2; ++a) {
    p.spread[a] = plain.output[a] > 1 ? plain.stride[a] : 1;
    w.input[a] = (plain.output[a] - 1) * p.spread[a] + 1;
    w.output[a] = plain.input[a];
    w.kernel[a] = p.plain_kernel[a] = plain.kernel[a];
    w.dilation[a] = plain.dilation[a];
    w.pad[a] = (plain.kernel[a] - 1) * plain.dilation[a] - plain.pad[a];
  }
  p.channels = d.out_channels;
  p.out_channels = p.y_row = d.in_channels;
  p.group = d.group;
  p.plain_channels = d.out_channels / d.group;
  return p;
}

// The problem of the forward pass for the gradient of weights, which reads x with channels last.
Problem GradientOfWeights(const ConvDescriptor& d) {
  const bool folds = d.x_layout == Layout::kNCHW || MatrixProduct::Vector(Plain(d)) == 0;
  return folds ? Folded(d) : Plain(d);
}

// With the passes of training.
class MatrixTrainingOp final : public MatrixConvOp<FloatProduct> {
 public:
  MatrixTrainingOp(Device* device, const ConvDescriptor& d)
      : MatrixConvOp<FloatProduct>(device, d),
        bias_(device, d.out, d.master(), d.batch * d.geometry.output_count(), d.out_channels, 1,
              std::nullopt, d.backward_weights) {
    if (d.backward_data) data_.emplace(device, GradientOfX(d));
    if (!d.backward_weights) return;
    const Problem p = GradientOfWeights(d);
    weights_.emplace(device, p);
    if (p.channels != d.in_channels || d.x_layout == Layout::kNCHW) fold_x_.emplace(device, d, p);
  }
  int64_t prepared_bytes() const override {
    return ForwardBytes() + (data_ ? data_->packed_bytes() : 0);
  }
  void Prepare(DevicePtr weights, DevicePtr prepared) override {
    MatrixConvOp<FloatProduct>::Prepare(weights, prepared);
    if (data_) data_->Pack(weights, prepared + ForwardBytes());
  }
  int64_t workspace_bytes() const override {
    const int64_t weights = weights_ ? FoldedXBytes() + weights_->workspace_bytes() : 0;
    return std::max({MatrixConvOp<FloatProduct>::workspace_bytes(), weights,
                     data_ ? data_->workspace_bytes() : 0, bias_.workspace_bytes()});
  }

 protected:
  void DoBackwardData(const ConvGradients& g) override {
    CheckMemory(g.prepared, g.workspace);
    FloatProduct::Operands o;
    o.x = g.y_diff;
    o.weights = g.prepared + ForwardBytes();
    o.y = g.x_diff;
    o.workspace = g.workspace;
    data_->Run(o);
  }
  void DoBackwardWeights(const ConvGradients& g) override {
    CheckWorkspace(g.workspace);
    if (fold_x_) fold_x_->Run(g.x, g.workspace);
    const DevicePtr behind = g.workspace ? g.workspace + FoldedXBytes() : g.workspace;
    weights_->Run({g.y_diff, fold_x_ ? g.workspace : g.x, g.w_diff, behind});
  }
  void DoBackwardBias(const ConvGradients& g) override {
    bias_.Backward(g.y_diff, g.b_diff, g.workspace);
  }

 private:
  // The bytes of the prepared weights before those of the gradient of x, and of the workspace
  // before those of the gradient of weights.
  int64_t ForwardBytes() const {
    return RoundUp(MatrixConvOp<FloatProduct>::prepared_bytes(), kAlignment);
  }
  int64_t FoldedXBytes() const { return fold_x_ ? fold_x_->bytes() : 0; }

  BiasOp bias_;
  std::optional<FloatProduct> data_;
  std::optional<FloatGradient> weights_;
  std::optional<ImageFold> fold_x_;
};

// Elements that kernels count in 32 bits.
bool Counts(const ConvDescriptor& d) {
  return std::max(d.batch * d.in_channels * d.geometry.input_count(),
                  d.batch * d.out_channels * d.geometry.output_count()) <= INT32_MAX;
}

// Whether each group of rows has one slope for all its channels, which no kernel reads.
template <class D> bool HasOneSlope(const D& d) {
  const bool slopes = d.epilogue.activation().kind == ElementFunction::Kind::kPReLU;
  return d.row_groups > 0 && slopes && d.epilogue.slopes == Epilogue::Bias::kNone;
}

// Groups with fewer channels leave most of a tile empty.
constexpr int64_t kFewestChannels = 16;

bool Trains(const ConvDescriptor& d) { return d.backward_data || d.backward_weights; }

// Whether the gradients are supported that the descriptor requests.
bool SupportsGradients(const ConvDescriptor& d) {
  if (d.in != d.out || d.row_groups > 0 || d.y_pitch > 0 || IsDepthwise(d) || !Counts(d))
    return false;
  if (d.backward_data) {
    const Problem p = GradientOfX(d);
    if (d.x_layout != Layout::kNHWC || MatrixProduct::Vector(p) == 0) return false;
    // Positions that no window reads would need another fill.
    if (std::min(p.window.pad[0], p.window.pad[1]) < 0 || !MatrixProduct::Counts(p)) return false;
  }
  return !d.backward_weights || FloatGradient::Computes(GradientOfWeights(d));
}

bool SupportsFloats(const ConvDescriptor& d) {
  if (!FloatProduct::KnowsTypes(d.in, d.out) || HasOneSlope(d)) return false;
  if (Trains(d) && !SupportsGradients(d)) return false;
  return d.group == 1 || IsDepthwise(d) ||
         std::min(d.in_channels, d.out_channels) >= d.group * kFewestChannels;
}

bool ComputesConvolution(const ConvDescriptor& d) {
  if (d.y_layout != Layout::kNHWC || d.geometry.axes() > 2) return false;
  if (!d.quantized() && !SupportsFloats(d)) return false;
  if (IsDepthwise(d)) {
    if (d.row_groups > 0) return false;
    const bool adds = !d.quantized() || d.depth() <= kNarrowDepth;
    return d.x_layout == Layout::kNHWC && adds && Counts(d);
  }
  if (!NeedsFold(d)) return MatrixProduct::Counts(ProblemOf(d));
  const Problem p = Folded(d);
  return d.group == 1 && MatrixProduct::Counts(p) && Counts(d) &&
         p.batch * p.window.input[0] * p.window.input[1] * p.channels <= INT32_MAX;
}

Problem ProblemOf(const GemmDescriptor& d) {
  Problem p;
  p.type = d.in;
  p.out = d.out;
  p.batch = d.m;
  p.channels = p.plain_channels = d.k;
  p.out_channels = p.y_row = d.n;
  p.row_groups = d.row_groups;
  p.epilogue = d.epilogue;
  p.transposed = !d.trans_b;
  return p;
}

// The gradient of weights [m, n] of a product whose k rows are positions.
Problem GradientProblemOf(const GemmDescriptor& d) {
  Problem p;
  p.type = d.in;
  p.batch = d.k;
  p.channels = p.plain_channels = d.n;
  p.out_channels = p.y_row = d.m;
  return p;
}

// The transpose of y_diff [k, m] times x [k, n].
class MatrixGradientOp final : public GemmOp {
 public:
  MatrixGradientOp(Device* device, const GemmDescriptor& d)
      : GemmOp(d), gradient_(device, GradientProblemOf(d)) {}
  const char* library() const override { return "matrix"; }
  int64_t workspace_bytes() const override { return gradient_.workspace_bytes(); }

 protected:
  void DoRun(const GemmArguments& g) override {
    CheckMemory(g);
    gradient_.Run({g.a, g.b, g.c, g.workspace, g.alpha, g.beta});
  }

 private:
  FloatGradient gradient_;
};

// x [m, k] times the transpose of the weights [n, k], or times weights [k, n], which are packed in
// each call unless they are constant.
template <class Product> class MatrixGemmOp final : public GemmOp {
 public:
  MatrixGemmOp(Device* device, const GemmDescriptor& d)
      : GemmOp(d),
        product_(device, ProblemOf(d)),
        packs_(!d.quantized() && d.weights() != GemmDescriptor::Weights::kB &&
               product_.packed_bytes() > 0) {}
  const char* library() const override { return "matrix"; }
  int64_t prepared_bytes() const override { return packs_ ? 0 : product_.packed_bytes(); }
  int64_t workspace_bytes() const override { return PackedBytes() + WorkspaceBytes(product_); }
  void Prepare(DevicePtr weights, DevicePtr prepared) override {
    if (prepared_bytes() > 0) product_.Pack(weights, prepared);
  }

 protected:
  void DoRun(const GemmArguments& given) override {
    CheckMemory(given);
    GemmArguments g = given;
    if (packs_) {
      g.prepared = g.workspace.As(g.b);
      product_.Pack(g.b, g.prepared);
      g.workspace = g.workspace + PackedBytes();
    }
    Compute(&product_, g);
  }

 private:
  int64_t PackedBytes() const { return packs_ ? RoundUp(product_.packed_bytes(), kAlignment) : 0; }

  Product product_;
  const bool packs_;
};

// Along the columns, or not at all.
bool HasColumns(Epilogue::Bias axis) { return axis != Epilogue::Bias::kPerRow; }

bool SupportsFloats(const GemmDescriptor& d) {
  const bool slopes = d.epilogue.activation().kind == ElementFunction::Kind::kPReLU;
  if (!FloatProduct::KnowsTypes(d.in, d.out) || !HasColumns(d.epilogue.bias)) return false;
  if (HasOneSlope(d)) return false;
  if (slopes && d.epilogue.slopes == Epilogue::Bias::kPerRow) return false;
  return d.weights() == GemmDescriptor::Weights::kB || !d.trans_b ||
         FloatProduct::ReadsWeights(ProblemOf(d));
}

// Gradients of weights are float.
bool IsGradient(const GemmDescriptor& d) {
  return d.trans_a && !d.trans_b && !d.quantized() && d.out == kFloat && d.row_groups == 0 &&
         d.epilogue.bias == Epilogue::Bias::kNone && d.epilogue.stages.empty();
}

bool ComputesProduct(const GemmDescriptor& d) {
  const bool dense = d.row_a() == (d.trans_a ? d.m : d.k) && d.row_b() == (d.trans_b ? d.k : d.n) &&
                     d.row_c() == d.n;
  if (d.batch != 1 || !dense || d.k <= 0) return false;
  if (IsGradient(d)) return FloatGradient::Computes(GradientProblemOf(d));
  if (d.trans_a || (!d.trans_b && (d.quantized() || d.row_groups > 0))) return false;
  const Problem p = ProblemOf(d);
  if (MatrixProduct::Vector(p) == 0 || !MatrixProduct::Counts(p)) return false;
  return d.quantized() ? d.weights() == GemmDescriptor::Weights::kB : SupportsFloats(d);
}

// Elsewhere loops take the place of matrix units, for tests: codes as the last row, and floats, of
// which there are many more programs, on request.
template <class D> bool Runs(Device* device, const D& d) {
  constexpr int64_t kMostItems = 256;  // of the largest tile
  return d.quantized() ? device->info().max_group_size >= kMostItems : device->info().matrix;
}

// Whether the product takes the time of reading the weights, as they are.
bool HasFewRows(const GemmDescriptor& d) {
  constexpr int64_t kMostRows = 8;
  return d.m <= kMostRows && d.trans_b && !d.trans_a && FloatProduct::ReadsWeights(ProblemOf(d));
}

// Vendors' libraries multiply floats faster, but for a few rows.
bool Prefers(Device* device, const ConvDescriptor& d) {
  return device->info().matrix && (d.quantized() || !CudnnLibrary().Supports(device, d));
}
bool Prefers(Device* device, const GemmDescriptor& d) {
  return device->info().matrix &&
         (d.quantized() || HasFewRows(d) || !CublasLibrary().Supports(device, d));
}

}  // namespace

ConvLibrary MatrixConvolutionLibrary() {
  ConvLibrary row;
  row.name = "matrix";
  row.place = &OnDevices;
  row.supports = [](Device* device, const ConvDescriptor& d) {
    return Runs(device, d) && ComputesConvolution(d);
  };
  row.make = [](Device* device, const ConvDescriptor& d) {
    return MakeMatrixConvolution(device, d);
  };
  row.prefers = [](Device* device, const ConvDescriptor& d) { return Prefers(device, d); };
  row.prefers_nhwc = [](Device* device, const ConvDescriptor&) { return device->info().matrix; };
  row.knows_pitch = true;
  row.knows_row_groups = true;
  row.compared_nhwc = row.matrix_units = true;
  return row;
}

std::unique_ptr<ConvOp> MakeMatrixConvolution(Device* device, const ConvDescriptor& d) {
  CAFFE_CHECK(ComputesConvolution(d), "the library matrix does not compute conv ", d.name());
  if (IsDepthwise(d))
    return d.quantized() ? MakeCodeWindows(device, d) : MakeFloatWindows(device, d);
  if (d.quantized()) return std::make_unique<MatrixConvOp<MatrixProduct>>(device, d);
  if (!Trains(d) && !NeedsFold(d) && VectorProduct::Computes(Plain(d))) {
    return std::make_unique<MatrixConvOp<VectorProduct>>(device, d);
  }
  if (Trains(d)) return std::make_unique<MatrixTrainingOp>(device, d);
  return std::make_unique<MatrixConvOp<FloatProduct>>(device, d);
}

GemmLibrary MatrixGemmLibrary() {
  GemmLibrary row;
  row.name = "matrix";
  row.place = &OnDevices;
  row.supports = [](Device* device, const GemmDescriptor& d) {
    return Runs(device, d) && ComputesProduct(d);
  };
  row.make = [](Device* device, const GemmDescriptor& d) { return MakeMatrixGemm(device, d); };
  row.prefers = [](Device* device, const GemmDescriptor& d) { return Prefers(device, d); };
  row.knows_row_groups = true;
  return row;
}

std::unique_ptr<GemmOp> MakeMatrixGemm(Device* device, const GemmDescriptor& d) {
  CAFFE_CHECK(ComputesProduct(d), "the library matrix does not compute gemm ", d.name());
  if (d.quantized()) return std::make_unique<MatrixGemmOp<MatrixProduct>>(device, d);
  if (IsGradient(d)) return std::make_unique<MatrixGradientOp>(device, d);
  if (d.trans_b && VectorProduct::Computes(ProblemOf(d))) {
    return std::make_unique<MatrixGemmOp<VectorProduct>>(device, d);
  }
  return std::make_unique<MatrixGemmOp<FloatProduct>>(device, d);
}

}  // namespace caffe

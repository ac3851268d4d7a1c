#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/rounding.hpp"
#include "caffe/library/workspace_layout.hpp"

namespace caffe {
namespace {

constexpr int64_t kWindow = 3;
// The most products for one of the convolution itself. Winograd's algorithm saves a factor of 4.
constexpr double kMostProducts = 3;

// How a window becomes windows of 3x3 with stride 1, see kernels/conv/small_windows.h.
struct Split {
  int64_t fold[2], blocks[2];
  int64_t channels;  // new ones for one of x

  explicit Split(const ConvDescriptor& d) {
    channels = 1;
    for (int a = 0; a < 2; ++a) {
      fold[a] = d.geometry.stride[a];
      blocks[a] = Ceil(Ceil(d.geometry.kernel[a], fold[a]), kWindow);
      channels *= fold[a] * blocks[a];
    }
  }
};

ConvDescriptor Inner(const ConvDescriptor& d, int64_t batch) {
  ConvDescriptor inner = d;
  const Shape out = d.geometry.output();
  inner.geometry = {
      {out[0] + kWindow - 1, out[1] + kWindow - 1}, {kWindow, kWindow}, {1, 1}, {0, 0}, {1, 1}};
  inner.batch = batch;
  inner.in_channels = d.in_channels * Split(d).channels;
  return inner;
}

int64_t ImageBytes(const ConvDescriptor& d) {
  return d.in_channels * d.geometry.input_count() * static_cast<int64_t>(d.in.bytes());
}

// The most images whose new form fits; their number divides the batch.
int64_t PieceOf(const ConvDescriptor& d, int64_t most_bytes) {
  const int64_t most = std::max<int64_t>(1, most_bytes / ImageBytes(Inner(d, 1)));
  int64_t piece = std::min(most, d.batch);
  while (d.batch % piece != 0) --piece;
  return piece;
}

class SmallWindowsOp final : public ConvOp {
 public:
  SmallWindowsOp(Device* device, const ConvDescriptor& d, int64_t most_bytes,
                 const ConvFactory& make)
      : ConvOp(d),
        split_(d),
        piece_(PieceOf(d, most_bytes)),
        inner_(make(device, Inner(d, piece_))) {
    ProgramBuilder builder(device, "small windows");
    builder.Types(d.in).Body("conv/small_windows");
    const KernelArguments geometry = Geometry();
    for (size_t i = 0; i < geometry.size(); ++i) {
      builder.Fold(kGeometryNames[i], geometry[i].integer);
    }
    const auto program = builder.Build();
    images_ = program->CreateKernel("split_images");
    weights_ = program->CreateKernel("split_weights");
    const ConvDescriptor& inner = inner_->descriptor();
    workspace_.Add(inner_->workspace_bytes());
    images_at_ = workspace_.Add(piece_ * ImageBytes(inner));
    const int64_t weight_bytes = inner.weight_count() * static_cast<int64_t>(d.in.bytes());
    prepared_.Add(weight_bytes);
    inner_at_ = prepared_.Add(inner_->prepared_bytes());
  }
  const char* library() const override { return "small_windows"; }
  int64_t workspace_bytes() const override { return workspace_.bytes(); }
  int64_t prepared_bytes() const override { return prepared_.bytes(); }
  void Prepare(DevicePtr weights, DevicePtr prepared) override {
    const ConvDescriptor& d = descriptor_;
    const int64_t rows = d.out_channels * inner_->descriptor().in_channels / d.group;
    weights_->Launch(
        {rows, kWindow * kWindow},
        {rows, d.in_channels / d.group, d.geometry.kernel[0], d.geometry.kernel[1], split_.fold[0],
         split_.fold[1], split_.blocks[0], split_.blocks[1], weights, prepared});
    if (inner_->prepared_bytes() > 0) inner_->Prepare(prepared, prepared + inner_at_);
  }

 protected:
  void DoForward(const ConvArguments& given) override {
    CheckMemory(given.prepared, given.workspace);
    const ConvDescriptor& d = descriptor_;
    const int64_t x_bytes = piece_ * ImageBytes(d);
    const int64_t y_bytes =
        piece_ * d.out_channels * d.geometry.output_count() * static_cast<int64_t>(d.out.bytes());
    ConvArguments a = given;
    a.weights = given.prepared;
    a.prepared = inner_->prepared_bytes() > 0 ? given.prepared + inner_at_ : DevicePtr{};
    a.x = (given.workspace + images_at_).As(given.x);
    for (int64_t i = 0; i < d.batch / piece_; ++i) {
      SplitImages(given.x + i * x_bytes, a.x);
      a.y = given.y + i * y_bytes;
      if (given.epilogue.residual) a.epilogue.residual = given.epilogue.residual + i * y_bytes;
      inner_->Forward(a);
    }
  }

 private:
  static constexpr const char* kGeometryNames[] = {"channels", "in_h",   "in_w",     "group",
                                                   "fold_h",   "fold_w", "blocks_h", "blocks_w",
                                                   "pad_h",    "pad_w",  "new_h",    "new_w"};

  KernelArguments Geometry() const {
    const ConvDescriptor& d = descriptor_;
    const ConvGeometry &g = d.geometry, &to = inner_->descriptor().geometry;
    return {d.in_channels / d.group,
            g.input[0],
            g.input[1],
            d.group,
            split_.fold[0],
            split_.fold[1],
            split_.blocks[0],
            split_.blocks[1],
            g.pad[0],
            g.pad[1],
            to.input[0],
            to.input[1]};
  }

  void SplitImages(DevicePtr from, DevicePtr to) {
    const ConvDescriptor& inner = inner_->descriptor();
    const int64_t rows = piece_ * inner.in_channels;
    KernelArguments arguments{rows};
    const KernelArguments geometry = Geometry();
    arguments.append(geometry.begin(), geometry.end());
    arguments.append({from.ReadOnly(), to});
    images_->Launch({rows * inner.geometry.input[0], inner.geometry.input[1]}, arguments);
  }

  const Split split_;
  const int64_t piece_;
  std::unique_ptr<ConvOp> inner_;
  std::unique_ptr<Kernel> images_, weights_;
  WorkspaceLayout workspace_, prepared_;
  int64_t images_at_ = 0, inner_at_ = 0;
};

bool Supports(Device*, const ConvDescriptor& d) {
  if (d.in != kFloat || d.out != kFloat) return false;
  if (!d.forward || d.backward_data || d.backward_weights) return false;
  const ConvGeometry& g = d.geometry;
  if (d.has_private_layout() || g.axes() != 2 || d.batch == 0) return false;
  if (d.group == d.in_channels && d.group > 1) return false;
  double products = 1;  // for one of the convolution itself
  bool other = false;   // not such a window already
  for (int a = 0; a < 2; ++a) {
    if (g.dilation[a] != 1 || g.kernel[a] <= g.stride[a]) return false;
    const auto taps = static_cast<double>(kWindow * g.stride[a] * Split(d).blocks[a]);
    products *= taps / static_cast<double>(g.kernel[a]);
    other = other || g.stride[a] > 1 || g.kernel[a] > kWindow;
  }
  if (!other || products > kMostProducts) return false;
  // Kernels count the elements of a piece in 32 bits.
  return ImageBytes(Inner(d, 1)) <= INT32_MAX;
}

}  // namespace

ConvLibrary SmallWindowsLibrary(const ConvFactory& make, int64_t most_bytes) {
  ConvLibrary row;
  row.name = "small_windows";
  row.place = &OnDevices;
  row.compared = row.forward_only = true;
  row.supports = &Supports;
  row.make = [make, most_bytes](Device* device,
                                const ConvDescriptor& d) -> std::unique_ptr<ConvOp> {
    CAFFE_CHECK(!d.backward_data && !d.backward_weights, device->info().id,
                ": small_windows computes forward passes only, not the gradients of ", d.name());
    return std::make_unique<SmallWindowsOp>(device, d, most_bytes, make);
  };
  // Whether it is faster is measured.
  row.prefers = [](Device*, const ConvDescriptor&) { return false; };
  return row;
}

ConvLibrary SmallWindowsLibrary(const ConvFactory& make) {
  return SmallWindowsLibrary(make, 128 << 20);
}

}  // namespace caffe

#include <algorithm>
#include <map>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/bias.hpp"
#include "caffe/library/generated/columns.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/tuning_table.hpp"
#include "caffe/library/workspace_layout.hpp"

namespace caffe {
namespace {

// im2col for a chunk of images in one launch, then one batched product per group, which writes NCHW
// directly. Gradients of weights: one product per image, summed in a fixed order.
class DeviceConvOp final : public ConvOp {
 public:
  // `piece`: the images of a forward pass, and of gradients of data, at a time; 0: as many as the
  // workspace may hold.
  DeviceConvOp(Device* device, const ConvDescriptor& d, const GemmFactory& products, int64_t piece)
      : ConvOp(d),
        products_(products),
        pointwise_(d.geometry.pointwise()),
        in_(d.geometry.input_count()),
        out_(d.geometry.output_count()),
        depth_(d.depth()),
        bias_(device, d.out, d.master(), d.batch, d.out_channels, out_, std::nullopt,
              d.backward_weights),
        columns_(device, d, d.forward || d.backward_weights, d.backward_data) {
    const int64_t limit = columns_.WorkspaceLimit(), part = Bytes(d.master(), d.weight_count());
    chunk_ = piece > 0 ? piece : columns_.ImagesIn(limit);
    part_chunk_ = columns_.ImagesIn(limit, part);
    for (const int64_t images : {chunk_, d.batch % chunk_}) {
      if (images > 0 && d.forward) forward_[images] = Make(ForwardProduct(images));
      if (images > 0 && d.backward_data) data_[images] = Make(DataProduct(images));
    }
    if (d.backward_weights) {
      for (const int64_t images : {part_chunk_, d.batch % part_chunk_}) {
        if (images > 0) weights_[images] = Make(WeightsProduct(images));
      }
      accumulate_ = ProgramBuilder(device, "accumulate")
                        .Types(d.master())
                        .Body("blas/accumulate")
                        .Build()
                        ->CreateKernel("accumulate_parts");
    }
    PlanWorkspace(part);
  }
  const char* library() const override {
    for (const auto* ops : {&forward_, &data_, &weights_}) {
      if (!ops->empty()) return ops->begin()->second->library();
    }
    return "none";
  }
  int64_t workspace_bytes() const override {
    return std::max(layout_.bytes(), bias_.workspace_bytes());
  }
  int64_t piece() const { return chunk_; }

 protected:
  void DoForward(const ConvArguments& a) override {
    const ConvDescriptor& d = descriptor_;
    CheckMemory(a.prepared, a.workspace);
    const int64_t group_out = d.out_channels / d.group;
    for (int64_t i = 0; i < d.batch; i += chunk_) {
      const int64_t images = std::min(chunk_, d.batch - i);
      const DevicePtr columns = columns_.Gather(a.x + Bytes(d.in, i * d.in_channels * in_), images,
                                                (a.workspace + columns_at_).As(a.x));
      for (int64_t g = 0; g < d.group; ++g) {
        const int64_t channel = g * group_out;
        GemmArguments product;
        product.a = a.weights + Bytes(d.in, channel * depth_);
        product.b = columns + Bytes(d.in, g * depth_ * out_);
        product.c = a.y + Bytes(d.out, (i * d.out_channels + channel) * out_);
        if (a.bias) product.bias = a.bias + Bytes(d.master(), channel);
        if (a.epilogue.residual) {
          product.epilogue.residual =
              a.epilogue.residual + Bytes(d.out, (i * d.out_channels + channel) * out_);
        }
        if (a.epilogue.slopes) {
          const bool shared = d.epilogue.slopes == Epilogue::Bias::kNone;
          product.epilogue.slopes = a.epilogue.slopes + Bytes(d.master(), shared ? 0 : channel);
        }
        product.workspace = a.workspace;
        forward_[images]->Run(product);
      }
    }
  }

  void DoBackwardData(const ConvGradients& a) override {
    const ConvDescriptor& d = descriptor_;
    CheckMemory(a.prepared, a.workspace);
    const int64_t group_out = d.out_channels / d.group;
    for (int64_t i = 0; i < d.batch; i += chunk_) {
      const int64_t images = std::min(chunk_, d.batch - i);
      const DevicePtr target = a.x_diff + Bytes(d.in, i * d.in_channels * in_);
      const DevicePtr columns = pointwise_ ? target : (a.workspace + columns_at_).As(a.x_diff);
      for (int64_t g = 0; g < d.group; ++g) {
        const int64_t channel = g * group_out;
        GemmArguments product;
        product.a = a.weights + Bytes(d.in, channel * depth_);
        product.b = a.y_diff + Bytes(d.out, (i * d.out_channels + channel) * out_);
        product.c = columns + Bytes(d.in, g * depth_ * out_);
        product.workspace = a.workspace;
        data_[images]->Run(product);
      }
      if (!pointwise_) columns_.Scatter(columns, images, target);
    }
  }

  void DoBackwardWeights(const ConvGradients& a) override {
    const ConvDescriptor& d = descriptor_;
    CheckWorkspace(a.workspace);
    const DevicePtr parts = a.workspace + parts_at_;
    const int64_t group_out = d.out_channels / d.group, count = d.weight_count();
    for (int64_t i = 0; i < d.batch; i += part_chunk_) {
      const int64_t images = std::min(part_chunk_, d.batch - i);
      const DevicePtr columns = columns_.Gather(a.x + Bytes(d.in, i * d.in_channels * in_), images,
                                                a.workspace + columns_at_);
      for (int64_t g = 0; g < d.group; ++g) {
        const int64_t channel = g * group_out;
        GemmArguments product;
        product.a = a.y_diff + Bytes(d.out, (i * d.out_channels + channel) * out_);
        product.b = columns + Bytes(d.in, g * depth_ * out_);
        product.c = (images == 1 ? a.w_diff : parts) + Bytes(d.master(), channel * depth_);
        product.beta = images == 1 ? 1 : 0;
        product.workspace = a.workspace;
        weights_[images]->Run(product);
      }
      if (images > 1) accumulate_->Launch(count, {count, images, parts, a.w_diff});
    }
  }

  void DoBackwardBias(const ConvGradients& a) override {
    bias_.Backward(a.y_diff, a.b_diff, a.workspace);
  }

 private:
  static int64_t Bytes(DataType type, int64_t count) {
    return count * static_cast<int64_t>(type.bytes());
  }

  // The products' workspace comes first.
  void PlanWorkspace(int64_t part) {
    const ConvDescriptor& d = descriptor_;
    int64_t products = 0;
    for (const auto* ops : {&forward_, &data_, &weights_}) {
      for (const auto& [images, op] : *ops) products = std::max(products, op->workspace_bytes());
    }
    layout_.Add(products);
    int64_t images = 0;
    if (d.forward || d.backward_data) images = chunk_;
    if (d.backward_weights) images = std::max(images, part_chunk_);
    columns_at_ = layout_.Add(pointwise_ ? 0 : images * columns_.bytes());
    parts_at_ = layout_.Add(d.backward_weights && part_chunk_ > 1 ? part_chunk_ * part : 0);
  }

  std::unique_ptr<GemmOp> Make(const GemmDescriptor& g) const {
    g.Check();
    return products_(g);
  }

  // y [out_channels / group, out] of each image = weights * columns.
  GemmDescriptor ForwardProduct(int64_t images) const {
    const ConvDescriptor& d = descriptor_;
    GemmDescriptor g;
    g.m = d.out_channels / d.group;
    g.n = out_;
    g.k = depth_;
    g.batch = images;
    g.stride_a = GemmDescriptor::kShared;
    g.stride_b = d.group * depth_ * out_;
    g.stride_c = d.out_channels * out_;
    g.in = d.in;
    g.out = d.out;
    g.epilogue = d.epilogue;
    if (g.epilogue.bias != Epilogue::Bias::kNone) g.epilogue.bias = Epilogue::Bias::kPerRow;
    if (g.epilogue.slopes != Epilogue::Bias::kNone) g.epilogue.slopes = Epilogue::Bias::kPerRow;
    return g;
  }

  // columns [depth, out] of each image = weights^T * y_diff.
  GemmDescriptor DataProduct(int64_t images) const {
    const ConvDescriptor& d = descriptor_;
    GemmDescriptor g;
    g.trans_a = true;
    g.m = depth_;
    g.n = out_;
    g.k = d.out_channels / d.group;
    g.batch = images;
    g.stride_a = GemmDescriptor::kShared;
    g.stride_b = d.out_channels * out_;
    g.stride_c = d.group * depth_ * out_;
    g.in = g.out = d.in;
    return g;
  }

  // A part [out_channels / group, depth] for each image = y_diff * columns^T.
  GemmDescriptor WeightsProduct(int64_t images) const {
    const ConvDescriptor& d = descriptor_;
    GemmDescriptor g;
    g.trans_b = true;
    g.m = d.out_channels / d.group;
    g.n = depth_;
    g.k = out_;
    g.batch = images;
    g.stride_a = d.out_channels * out_;
    g.stride_b = d.group * depth_ * out_;
    g.stride_c = d.weight_count();
    g.in = d.in;
    g.out = d.master();
    return g;
  }

  const GemmFactory products_;
  const bool pointwise_;
  const int64_t in_, out_, depth_;
  BiasOp bias_;
  Columns columns_;
  int64_t chunk_ = 1, part_chunk_ = 1;  // images at a time; for gradients of weights
  WorkspaceLayout layout_;
  int64_t columns_at_ = 0, parts_at_ = 0;
  std::unique_ptr<Kernel> accumulate_;
  std::map<int64_t, std::unique_ptr<GemmOp>> forward_, data_, weights_;  // by number of images
};

}  // namespace

std::unique_ptr<ConvOp> MakeDeviceConvolution(Device* device, const ConvDescriptor& d,
                                              const GemmFactory& products) {
  auto whole = std::make_unique<DeviceConvOp>(device, d, products, 0);
  if (device->backend() != "opencl" || !d.forward || d.geometry.pointwise()) return whole;
  constexpr int64_t kMostPieces = 16;
  std::vector<ConvLibrary> rows;
  std::map<std::string, int64_t> pieces;
  for (int64_t piece = whole->piece(); piece >= 1 && whole->piece() / piece < kMostPieces;
       piece /= 2) {
    ConvLibrary row;
    row.name = Concat(whole->library(), ", pieces of ", piece, piece == 1 ? " image" : " images");
    row.make = [=](Device* on, const ConvDescriptor& one) {
      return std::make_unique<DeviceConvOp>(on, one, products, piece);
    };
    pieces[row.name] = piece;
    rows.push_back(std::move(row));
  }
  if (rows.size() < 2) return whole;
  const int64_t piece = pieces.at(FastestForward(device, d, rows, TuningIsExhaustive()));
  if (piece == whole->piece()) return whole;
  return std::make_unique<DeviceConvOp>(device, d, products, piece);
}

}  // namespace caffe

#include <algorithm>
#include <map>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/bias.hpp"
#include "caffe/library/device_array.hpp"
#include "caffe/library/libraries.hpp"

namespace caffe {
namespace {

constexpr int64_t kGpuLimit = 64 << 20, kProcessorLimit = 8 << 20;
// Kernels count elements in 32 bits.
constexpr int64_t kMostElements = INT32_MAX / 2;

// im2col for a chunk of images in one launch, then one batched product per group, straight into
// NCHW. Gradients of weights: a product per image, summed in a fixed order.
class DeviceConvOp final : public ConvOp {
 public:
  DeviceConvOp(Device* device, const ConvDescriptor& d, const GemmFactory& products)
      : ConvOp(d),
        device_(device),
        products_(products),
        pointwise_(d.geometry.pointwise()),
        in_(d.geometry.input_count()),
        out_(d.geometry.output_count()),
        taps_(d.geometry.kernel_count()),
        depth_(d.in_channels / d.group * taps_),
        bias_(device, d.out, d.master(), d.batch, d.out_channels, out_, false, d.backward_weights) {
    if (!pointwise_) BuildColumnKernels();
    PlanWorkspace();
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
  }
  const char* library() const override {
    for (const auto* ops : {&forward_, &data_, &weights_}) {
      if (!ops->empty()) return ops->begin()->second->library();
    }
    return "none";
  }
  int64_t workspace_bytes() const override {
    int64_t bytes = columns_.bytes() + parts_.bytes() + geometry_.bytes() + bias_.workspace_bytes();
    for (const auto* ops : {&forward_, &data_, &weights_}) {
      for (const auto& [images, op] : *ops) bytes += op->workspace_bytes();
    }
    return bytes;
  }

  void Forward(DevicePtr x, DevicePtr weights, DevicePtr bias, DevicePtr y) override {
    const ConvDescriptor& d = descriptor_;
    CAFFE_CHECK(d.forward, "convolution ", d.name(), " was not made for a forward pass");
    const int64_t group_out = d.out_channels / d.group;
    for (int64_t i = 0; i < d.batch; i += chunk_) {
      const int64_t images = std::min(chunk_, d.batch - i);
      const DevicePtr columns = Columns(x + Bytes(d.in, i * d.in_channels * in_), images);
      for (int64_t g = 0; g < d.group; ++g) {
        const int64_t channel = g * group_out;
        forward_[images]->Run(weights + Bytes(d.in, channel * depth_),
                              columns + Bytes(d.in, g * depth_ * out_),
                              y + Bytes(d.out, (i * d.out_channels + channel) * out_),
                              bias ? bias + Bytes(d.master(), channel) : bias, 1, 0);
      }
    }
  }

  void BackwardData(DevicePtr y_diff, DevicePtr weights, DevicePtr x_diff) override {
    const ConvDescriptor& d = descriptor_;
    CAFFE_CHECK(d.backward_data, "convolution ", d.name(), " was not made for gradients of data");
    const int64_t group_out = d.out_channels / d.group;
    for (int64_t i = 0; i < d.batch; i += chunk_) {
      const int64_t images = std::min(chunk_, d.batch - i);
      const DevicePtr target = x_diff + Bytes(d.in, i * d.in_channels * in_);
      const DevicePtr columns = pointwise_ ? target : columns_.get();
      for (int64_t g = 0; g < d.group; ++g) {
        const int64_t channel = g * group_out;
        data_[images]->Run(weights + Bytes(d.in, channel * depth_),
                           y_diff + Bytes(d.out, (i * d.out_channels + channel) * out_),
                           columns + Bytes(d.in, g * depth_ * out_), {}, 1, 0);
      }
      if (pointwise_) continue;
      if (geometry_.get()) {
        const int64_t n = images * d.in_channels * in_;
        col2im_->Launch(n,
                        {n, d.geometry.axes(), in_, out_, taps_, geometry_.get(), columns, target});
      } else {
        const int64_t rows = images * d.in_channels * d.geometry.input[0];
        LaunchPlanar(*col2im_, LaunchRange(rows, d.geometry.input[1]), rows, columns, target);
      }
    }
  }

  void BackwardWeights(DevicePtr x, DevicePtr y_diff, DevicePtr w_diff) override {
    const ConvDescriptor& d = descriptor_;
    CAFFE_CHECK(d.backward_weights, "convolution ", d.name(),
                " was not made for gradients of weights");
    const int64_t group_out = d.out_channels / d.group, count = d.weight_count();
    for (int64_t i = 0; i < d.batch; i += part_chunk_) {
      const int64_t images = std::min(part_chunk_, d.batch - i);
      const DevicePtr columns = Columns(x + Bytes(d.in, i * d.in_channels * in_), images);
      for (int64_t g = 0; g < d.group; ++g) {
        const int64_t channel = g * group_out;
        const DevicePtr target = images == 1 ? w_diff : parts_.get();
        weights_[images]->Run(y_diff + Bytes(d.out, (i * d.out_channels + channel) * out_),
                              columns + Bytes(d.in, g * depth_ * out_),
                              target + Bytes(d.master(), channel * depth_), {}, 1,
                              images == 1 ? 1 : 0);
      }
      if (images > 1) accumulate_->Launch(count, {count, images, parts_.get(), w_diff});
    }
  }

  void BackwardBias(DevicePtr y_diff, DevicePtr b_diff) override { bias_.Backward(y_diff, b_diff); }

 private:
  static int64_t Bytes(DataType type, int64_t count) {
    return count * static_cast<int64_t>(type.bytes());
  }

  void BuildColumnKernels() {
    const ConvDescriptor& d = descriptor_;
    const ConvGeometry& g = d.geometry;
    const bool planar = g.axes() == 2;
    for (const char* path : {"conv/im2col", "conv/col2im"}) {
      const bool gather = path == std::string("conv/im2col");
      if (gather ? !d.forward && !d.backward_weights : !d.backward_data) continue;
      ProgramBuilder builder(device_, gather ? "im2col" : "col2im");
      builder.Types(d.in).Body(path);
      // On processors a program for every shape costs more than constants save.
      const bool fold = !device_->info().is_cpu_type;
      if (fold && planar) {
        const Shape out = g.output();
        builder.Fold("in_h", g.input[0]).Fold("in_w", g.input[1]);
        builder.Fold("out_h", out[0]).Fold("out_w", out[1]);
        builder.Fold("kernel_h", g.kernel[0]).Fold("kernel_w", g.kernel[1]);
        builder.Fold("stride_h", g.stride[0]).Fold("stride_w", g.stride[1]);
        builder.Fold("pad_h", g.pad[0]).Fold("pad_w", g.pad[1]);
        builder.Fold("dilation_h", g.dilation[0]).Fold("dilation_w", g.dilation[1]);
      } else if (fold) {
        builder.Fold("axes", g.axes()).Fold("in_count", in_).Fold("out_count", out_);
        builder.Fold("kernel_count", taps_);
      }
      const std::string name = std::string(gather ? "im2col" : "col2im") + (planar ? "_2d" : "_nd");
      (gather ? im2col_ : col2im_) = builder.Build()->CreateKernel(name);
    }
    if (planar) return;
    std::vector<int32_t> table;
    const Shape out = g.output();
    for (int axis = 0; axis < g.axes(); ++axis) {
      for (const int64_t value : {g.input[axis], out[axis], g.kernel[axis], g.stride[axis],
                                  g.pad[axis], g.dilation[axis]}) {
        table.push_back(static_cast<int32_t>(value));
      }
    }
    const int64_t bytes = table.size() * sizeof(int32_t);
    geometry_ = DeviceArray(device_, bytes, "a convolution's geometry");
    device_->Upload(geometry_.get(), table.data(), bytes);
  }

  void PlanWorkspace() {
    const ConvDescriptor& d = descriptor_;
    const int64_t standard = device_->info().is_cpu_type ? kProcessorLimit : kGpuLimit;
    const int64_t limit = d.workspace_limit > 0 ? d.workspace_limit : standard;
    const int64_t elements = d.in_channels * taps_ * out_, bytes = Bytes(d.in, elements);
    const int64_t part = Bytes(d.master(), d.weight_count());
    const int64_t most =
        std::clamp<int64_t>(kMostElements / std::max(elements, d.out_channels * out_), 1, d.batch);
    chunk_ = pointwise_ ? most : std::clamp<int64_t>(limit / bytes, 1, most);
    part_chunk_ = std::clamp<int64_t>(limit / ((pointwise_ ? 0 : bytes) + part), 1, most);
    int64_t columns = 0;
    if (!pointwise_ && (d.forward || d.backward_data)) columns = chunk_ * bytes;
    if (!pointwise_ && d.backward_weights) columns = std::max(columns, part_chunk_ * bytes);
    columns_ = DeviceArray(device_, columns, "columns of a convolution");
    if (d.backward_weights && part_chunk_ > 1) {
      parts_ = DeviceArray(device_, part_chunk_ * part, "partial gradients of a convolution");
    }
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

  void LaunchPlanar(Kernel& kernel, const LaunchRange& range, int64_t rows, DevicePtr from,
                    DevicePtr to) {
    const ConvGeometry& g = descriptor_.geometry;
    const Shape out = g.output();
    kernel.Launch(
        range, {rows, g.input[0], g.input[1], out[0], out[1], g.kernel[0], g.kernel[1], g.stride[0],
                g.stride[1], g.pad[0], g.pad[1], g.dilation[0], g.dilation[1], from, to});
  }

  // The columns of a chunk of images [images, in_channels, taps, out].
  DevicePtr Columns(DevicePtr x, int64_t images) {
    if (pointwise_) return x;
    const ConvDescriptor& d = descriptor_;
    if (geometry_.get()) {
      const int64_t n = images * d.in_channels * taps_ * out_;
      im2col_->Launch(n,
                      {n, d.geometry.axes(), in_, out_, taps_, geometry_.get(), x, columns_.get()});
    } else {
      const Shape out = d.geometry.output();
      const int64_t rows = images * d.in_channels * taps_ * out[0];
      LaunchPlanar(*im2col_, LaunchRange(rows, out[1]), rows, x, columns_.get());
    }
    return columns_.get();
  }

  Device* device_;
  const GemmFactory products_;
  const bool pointwise_;
  const int64_t in_, out_, taps_, depth_;
  int64_t chunk_ = 1, part_chunk_ = 1;  // images at a time; for gradients of weights
  BiasOp bias_;
  DeviceArray columns_, parts_, geometry_;
  std::unique_ptr<Kernel> im2col_, col2im_, accumulate_;
  std::map<int64_t, std::unique_ptr<GemmOp>> forward_, data_, weights_;  // by number of images
};

}  // namespace

std::unique_ptr<ConvOp> MakeDeviceConvolution(Device* device, const ConvDescriptor& d,
                                              const GemmFactory& products) {
  return std::make_unique<DeviceConvOp>(device, d, products);
}

}  // namespace caffe

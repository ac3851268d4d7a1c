#include <algorithm>
#include <map>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/device_array.hpp"
#include "caffe/library/libraries.hpp"

namespace caffe {
namespace {

constexpr int64_t kGpuLimit = 64 << 20, kProcessorLimit = 8 << 20;
// Kernels count elements in 32 bits.
constexpr int64_t kMostElements = INT32_MAX / 2;

// Columns of codes for a chunk of images, whose padding is the zero point, then one batched product
// a group, requantized straight into NCHW.
class DeviceQuantizedConvOp final : public ConvOp {
 public:
  DeviceQuantizedConvOp(Device* device, const ConvDescriptor& d)
      : ConvOp(d),
        device_(device),
        pointwise_(d.geometry.pointwise()),
        in_(d.geometry.input_count()),
        out_(d.geometry.output_count()),
        taps_(d.geometry.kernel_count()) {
    const int64_t elements = d.in_channels * taps_ * out_;
    const int64_t standard = device->info().is_cpu_type ? kProcessorLimit : kGpuLimit;
    const int64_t limit = d.workspace_limit > 0 ? d.workspace_limit : standard;
    const int64_t most =
        std::clamp<int64_t>(kMostElements / std::max(elements, d.out_channels * out_), 1, d.batch);
    chunk_ = pointwise_ ? most : std::clamp<int64_t>(limit / Bytes(elements), 1, most);
    if (!pointwise_) {
      BuildColumnKernel();
      columns_ = DeviceArray(device, chunk_ * Bytes(elements), "columns of a convolution");
    }
    for (const int64_t images : {chunk_, d.batch % chunk_}) {
      if (images > 0 && !products_[images]) products_[images] = Product(images);
    }
  }
  const char* library() const override { return "generated"; }
  int64_t workspace_bytes() const override { return columns_.bytes() + geometry_.bytes(); }
  void Forward(DevicePtr, DevicePtr, DevicePtr, DevicePtr) override {
    CAFFE_THROW("convolution ", descriptor_.name(), ": quantized types take ForwardQuantized");
  }
  void BackwardData(DevicePtr, DevicePtr, DevicePtr) override { NoBackward(); }
  void BackwardWeights(DevicePtr, DevicePtr, DevicePtr) override { NoBackward(); }
  void BackwardBias(DevicePtr, DevicePtr) override { NoBackward(); }

  void SetWeights(DevicePtr codes) override { weights_ = codes; }

  void ForwardQuantized(DevicePtr x, DevicePtr y, const QuantArguments& arguments) override {
    const ConvDescriptor& d = descriptor_;
    CAFFE_CHECK(weights_, "convolution ", d.name(), ": has not got its weights");
    const int64_t group_out = d.out_channels / d.group;
    for (int64_t i = 0; i < d.batch; i += chunk_) {
      const int64_t images = std::min(chunk_, d.batch - i);
      const DevicePtr columns =
          Columns(x + Bytes(i * d.in_channels * in_), images, arguments.zero_x);
      GemmOp& product = *products_.at(images);
      for (int64_t g = 0; g < d.group; ++g) {
        const int64_t channel = g * group_out;
        QuantArguments part = arguments;
        part.bias = part.bias + channel * static_cast<int64_t>(sizeof(int64_t));
        part.multiplier = part.multiplier + channel * static_cast<int64_t>(sizeof(int32_t));
        part.shift = part.shift + channel * static_cast<int64_t>(sizeof(int32_t));
        product.SetWeights(weights_ + Bytes(channel * d.depth()));
        product.RunQuantized(columns + Bytes(g * d.depth() * out_),
                             y + Bytes((i * d.out_channels + channel) * out_), part);
      }
    }
  }

 private:
  [[noreturn]] void NoBackward() const {
    CAFFE_THROW("convolution ", descriptor_.name(), ": quantized types have no gradients");
  }

  int64_t Bytes(int64_t elements) const {
    return elements * static_cast<int64_t>(descriptor_.in.bytes());
  }

  void BuildColumnKernel() {
    const ConvGeometry& g = descriptor_.geometry;
    const Shape out = g.output();
    const bool planar = g.axes() == 2;
    ProgramBuilder builder(device_, "im2col");
    builder.Types(descriptor_.in).Body("conv/im2col");
    // On processors a program for every shape costs more than constants save.
    const bool fold = !device_->info().is_cpu_type;
    if (fold && planar) {
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
    im2col_ = builder.Build()->CreateKernel(planar ? "im2col_2d" : "im2col_nd");
    if (planar) return;
    std::vector<int32_t> table;
    for (int axis = 0; axis < g.axes(); ++axis) {
      for (const int64_t value : {g.input[axis], out[axis], g.kernel[axis], g.stride[axis],
                                  g.pad[axis], g.dilation[axis]}) {
        table.push_back(static_cast<int32_t>(value));
      }
    }
    const int64_t bytes = static_cast<int64_t>(table.size() * sizeof(int32_t));
    geometry_ = DeviceArray(device_, bytes, "a convolution's geometry");
    device_->Upload(geometry_.get(), table.data(), bytes);
  }

  // y [out_channels / group, out] of each image = weights * columns.
  std::unique_ptr<GemmOp> Product(int64_t images) const {
    const ConvDescriptor& d = descriptor_;
    GemmDescriptor g;
    g.m = d.out_channels / d.group;
    g.n = out_;
    g.k = d.depth();
    g.batch = images;
    g.stride_a = GemmDescriptor::kShared;
    g.stride_b = d.group * d.depth() * out_;
    g.stride_c = d.out_channels * out_;
    g.in = g.out = d.in;
    g.epilogue = d.epilogue;
    g.epilogue.bias = Epilogue::Bias::kPerRow;
    g.Check();
    return MakeDeviceQuantizedGemm(device_, g);
  }

  DevicePtr Columns(DevicePtr x, int64_t images, int32_t zero) {
    if (pointwise_) return x;
    const ConvDescriptor& d = descriptor_;
    const ConvGeometry& g = d.geometry;
    const KernelArgument source(x, zero), target(columns_.get(), zero);
    if (geometry_.get()) {
      const int64_t n = images * d.in_channels * taps_ * out_;
      im2col_->Launch(n, {n, g.axes(), in_, out_, taps_, geometry_.get(), source, target});
    } else {
      const Shape out = g.output();
      const int64_t rows = images * d.in_channels * taps_ * out[0];
      im2col_->Launch(
          LaunchRange(rows, out[1]),
          {rows, g.input[0], g.input[1], out[0], out[1], g.kernel[0], g.kernel[1], g.stride[0],
           g.stride[1], g.pad[0], g.pad[1], g.dilation[0], g.dilation[1], source, target});
    }
    return columns_.get();
  }

  Device* device_;
  const bool pointwise_;
  const int64_t in_, out_, taps_;
  int64_t chunk_ = 1;  // images at a time
  DevicePtr weights_;
  DeviceArray columns_, geometry_;
  std::unique_ptr<Kernel> im2col_;
  std::map<int64_t, std::unique_ptr<GemmOp>> products_;  // by number of images
};

}  // namespace

std::unique_ptr<ConvOp> MakeDeviceQuantizedConvolution(Device* device, const ConvDescriptor& d) {
  return std::make_unique<DeviceQuantizedConvOp>(device, d);
}

}  // namespace caffe

#include "caffe/library/generated/columns.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"

namespace caffe {
namespace {

constexpr int64_t kGpuLimit = 64 << 20, kProcessorLimit = 8 << 20;
// Kernels count elements in 32 bits.
constexpr int64_t kMostElements = INT32_MAX / 2;

}  // namespace

Columns::Columns(Device* device, const ConvDescriptor& descriptor, bool gather, bool scatter)
    : device_(device),
      d_(descriptor),
      in_(d_.geometry.input_count()),
      out_(d_.geometry.output_count()),
      taps_(d_.geometry.kernel_count()) {
  if (d_.geometry.pointwise()) return;
  if (gather) im2col_ = MakeKernel("im2col");
  if (scatter) col2im_ = MakeKernel("col2im");
  if (d_.geometry.axes() != 2) UploadGeometry();
}

int64_t Columns::WorkspaceLimit() const {
  if (d_.workspace_limit > 0) return d_.workspace_limit;
  return device_->info().is_cpu_type ? kProcessorLimit : kGpuLimit;
}

int64_t Columns::ImagesIn(int64_t limit, int64_t extra) const {
  const int64_t most = std::clamp<int64_t>(
      kMostElements / std::max(elements(), d_.out_channels * out_), 1, d_.batch);
  const int64_t each = (d_.geometry.pointwise() ? 0 : bytes()) + extra;
  return each == 0 ? most : std::clamp<int64_t>(limit / each, 1, most);
}

std::unique_ptr<Kernel> Columns::MakeKernel(const char* body) const {
  const ConvGeometry& g = d_.geometry;
  const bool planar = g.axes() == 2;
  ProgramBuilder builder(device_, body);
  builder.Types(d_.in).Body(std::string("conv/") + body);
  if (planar) {
    const Shape out = g.output();
    builder.Fold("in_h", g.input[0]).Fold("in_w", g.input[1]);
    builder.Fold("out_h", out[0]).Fold("out_w", out[1]);
    builder.Fold("kernel_h", g.kernel[0]).Fold("kernel_w", g.kernel[1]);
    builder.Fold("stride_h", g.stride[0]).Fold("stride_w", g.stride[1]);
    builder.Fold("pad_h", g.pad[0]).Fold("pad_w", g.pad[1]);
    builder.Fold("dilation_h", g.dilation[0]).Fold("dilation_w", g.dilation[1]);
  } else {
    builder.Fold("axes", g.axes()).Fold("in_count", in_).Fold("out_count", out_);
    builder.Fold("kernel_count", taps_);
  }
  return builder.Build()->CreateKernel(std::string(body) + (planar ? "_2d" : "_nd"));
}

void Columns::UploadGeometry() {
  const ConvGeometry& g = d_.geometry;
  const Shape out = g.output();
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

void Columns::LaunchPlanar(Kernel& kernel, const LaunchRange& range, KernelArgument from,
                           KernelArgument to) const {
  const ConvGeometry& g = d_.geometry;
  const Shape out = g.output();
  kernel.Launch(range, {range.rows, g.input[0], g.input[1], out[0], out[1], g.kernel[0],
                        g.kernel[1], g.stride[0], g.stride[1], g.pad[0], g.pad[1], g.dilation[0],
                        g.dilation[1], from, to});
}

DevicePtr Columns::Gather(DevicePtr x, int64_t images, DevicePtr columns, int32_t zero) {
  if (d_.geometry.pointwise()) return x;
  const KernelArgument source(x, zero), target(columns, zero);
  if (geometry_.get()) {
    const int64_t n = images * elements();
    im2col_->Launch(n, {n, d_.geometry.axes(), in_, out_, taps_, geometry_.get(), source, target});
  } else {
    const Shape out = d_.geometry.output();
    LaunchPlanar(*im2col_, LaunchRange(images * d_.in_channels * taps_ * out[0], out[1]), source,
                 target);
  }
  return columns;
}

void Columns::Scatter(DevicePtr columns, int64_t images, DevicePtr x) {
  if (geometry_.get()) {
    const int64_t n = images * d_.in_channels * in_;
    col2im_->Launch(n, {n, d_.geometry.axes(), in_, out_, taps_, geometry_.get(), columns, x});
  } else {
    const Shape& input = d_.geometry.input;
    LaunchPlanar(*col2im_, LaunchRange(images * d_.in_channels * input[0], input[1]), columns, x);
  }
}

}  // namespace caffe

#include "caffe/layer/dynamic_product.hpp"

#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/multiplexer.hpp"
#include "caffe/library/rounding.hpp"

namespace caffe {

DynamicProduct::DynamicProduct(Device* device, ConvDescriptor d, JointWeights::Groups weights)
    : min_max_(kFloat, device) {
  ConvGeometry& g = d.geometry;
  g.Normalize();
  CAFFE_CHECK(g.axes() <= 2, "a convolution over ", g.axes(),
              " axes has no mode CAFFE_QUANT_DYNAMIC; remove the mode, and set compute_data_type: "
              "CAFFE_FLOAT");
  CAFFE_CHECK(d.depth() <= kNarrowDepth, d.depth(), " products in a sum are more than the ",
              kNarrowDepth,
              " that mode CAFFE_QUANT_DYNAMIC can add; remove the mode, and set compute_data_type: "
              "CAFFE_FLOAT");
  images_ = d.batch;
  channels_ = d.in_channels;
  out_channels_ = d.out_channels;
  positions_ = g.output_count();
  products_ = d.batch * d.out_channels * positions_ * d.depth();
  const Shape padded = g.padded();
  padded_ = padded != g.input;
  if (!padded_) {
    width_ = padded_w_ = g.input_count();
  } else {
    const int last = g.axes() - 1;
    width_ = g.input[last];
    padded_w_ = padded[last];
    pad_w_ = g.pad[last];
    if (last > 0) {
      height_ = g.input[0];
      padded_h_ = padded[0];
      pad_h_ = g.pad[0];
    }
  }
  // The codes have their padding: a library would need the zero point for it.
  g.input = padded;
  g.pad.assign(padded.size(), 0);
  d.in = d.out = kQuant8;
  d.sums = true;
  nhwc_ = device->host_accessible();
  d.y_layout = nhwc_ ? Layout::kNHWC : Layout::kNCHW;
  conv_ = Multiplexer::Convolution(device, d);
  SetWeights(std::move(weights), conv_.get(), conv_->descriptor().key(), d.batch);
  MakeKernels(device);
}

DynamicProduct::DynamicProduct(Device* device, GemmDescriptor d, JointWeights::Groups weights)
    : min_max_(kFloat, device) {
  CAFFE_CHECK(d.k <= kNarrowDepth, d.k, " products in a sum are more than the ", kNarrowDepth,
              " that mode CAFFE_QUANT_DYNAMIC can add; remove the mode, and set compute_data_type: "
              "CAFFE_FLOAT");
  images_ = d.m;
  channels_ = 1;
  width_ = padded_w_ = d.k;
  out_channels_ = d.n;
  products_ = d.m * d.n * d.k;
  d.in = d.out = kQuant8;
  d.sums = true;
  gemm_ = Multiplexer::Gemm(device, d);
  SetWeights(std::move(weights), gemm_.get(), d.key(), d.m);
  MakeKernels(device);
}

void DynamicProduct::MakeKernels(Device* device) {
  const auto program =
      ProgramBuilder(device, "dynamic").AlsoType(kQuant8).Body("quant/dynamic").Build();
  grid_ = program->CreateKernel("dynamic_grid");
  codes_ = program->CreateKernel(padded_ ? "dynamic_padded" : "dynamic_codes");
  values_ = program->CreateKernel(!conv_  ? "dynamic_columns"
                                  : nhwc_ ? "dynamic_planes"
                                          : "dynamic_rows");
  const int64_t floats = sizeof(float);
  parts_at_ = layout_.Add(MinMax::kPartNumbers * floats);
  grid_at_ = layout_.Add(3 * floats);
  codes_at_ = layout_.Add(images_ * channels_ * padded_h_ * padded_w_);
  sums_at_ = layout_.Add(images_ * out_channels_ * positions_ * int64_t{sizeof(int32_t)});
  workspace_at_ = layout_.Add(op().workspace_bytes());
}

const Operator& DynamicProduct::op() const {
  return conv_ ? static_cast<const Operator&>(*conv_) : *gemm_;
}

void DynamicProduct::Quantize(DevicePtr x, DevicePtr grid, DevicePtr codes) {
  const int64_t planes = images_ * channels_;
  if (!padded_) {
    const int64_t n = planes * height_ * width_;
    codes_->Launch(n, {n, x, grid, codes});
    return;
  }
  const int64_t rows = planes * padded_h_;
  codes_->Launch(LaunchRange(rows, padded_w_),
                 {rows, padded_w_, height_, width_, padded_h_, pad_h_, pad_w_, x, grid, codes});
}

void DynamicProduct::Multiply(DevicePtr codes, DevicePtr sums, DevicePtr workspace) {
  const QuantArguments quant;
  const auto set = [&](auto* arguments) {
    arguments->prepared = weights().prepared();
    arguments->quant = &quant;
    arguments->workspace = workspace;
  };
  if (conv_) {
    ConvArguments arguments;
    set(&arguments);
    arguments.x = codes;
    arguments.weights = weights().weights();
    arguments.y = sums;
    conv_->Forward(arguments);
  } else {
    GemmArguments arguments;
    set(&arguments);
    arguments.a = codes;
    arguments.b = weights().weights();
    arguments.c = sums;
    gemm_->Run(arguments);
  }
}

void DynamicProduct::Run(const Operands& operands) {
  const DevicePtr memory = operands.workspace, parts = memory + parts_at_, grid = memory + grid_at_,
                  codes = memory + codes_at_, sums = memory + sums_at_;
  const int64_t chunks =
      min_max_.FindParts(operands.x, images_ * channels_ * height_ * width_, parts);
  grid_->Launch(1, {1, parts, grid, chunks});
  Quantize(operands.x, grid, codes);
  Multiply(codes, sums, memory + workspace_at_);
  const SumArguments f = one().sum_arguments();
  if (!conv_) {
    values_->Launch(LaunchRange(images_, out_channels_),
                    {images_, out_channels_, sums, grid, f.scale, f.bias, f.weights, operands.y});
    return;
  }
  const int64_t rows = images_ * (nhwc_ ? Ceil(out_channels_, 16) : out_channels_);
  values_->Launch(
      nhwc_ ? LaunchRange(rows) : LaunchRange(rows, positions_),
      {rows, positions_, out_channels_, sums, grid, f.scale, f.bias, f.weights, operands.y});
}

void DynamicProduct::Backward(const Gradients&, Workspace*) {
  CAFFE_THROW("a layer in mode CAFFE_QUANT_DYNAMIC has no backward pass; train in a float type");
}

}  // namespace caffe

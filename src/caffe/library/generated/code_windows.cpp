#include "caffe/library/generated/code_windows.hpp"

#include <algorithm>
#include <memory>

#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/generated/matrix_product.hpp"
#include "caffe/library/generated/residual_stage.hpp"
#include "caffe/library/layout_converter.hpp"
#include "caffe/library/rounding.hpp"

namespace caffe {
namespace {

using Window = MatrixProduct::Window;

// Weights with channels last, so that neighbours are read at once.
class WindowsOp : public ConvOp {
 public:
  WindowsOp(Device* device, const ConvDescriptor& d)
      : ConvOp(d), window_(Window::Of(d.geometry)), converter_(device, d.in) {}
  const char* library() const override { return "matrix"; }
  int64_t prepared_bytes() const override {
    return descriptor_.weight_count() * static_cast<int64_t>(descriptor_.in.bytes());
  }
  void Prepare(DevicePtr codes, DevicePtr prepared) override {
    converter_.Run(1, descriptor_.in_channels, descriptor_.geometry.kernel_count(), codes, prepared,
                   Layout::kNHWC);
  }

 protected:
  const Window window_;

 private:
  LayoutConverter converter_;
};

class CodeWindowsOp final : public WindowsOp {
 public:
  CodeWindowsOp(Device* device, const ConvDescriptor& d)
      : WindowsOp(device, d), lanes_(d.in_channels % 4 == 0 ? 4 : 1) {
    ProgramBuilder builder(device, "windows of codes");
    builder.Types(d.in)
        .Define("LANES", lanes_)
        .Define("CODE_BYTES", static_cast<int64_t>(d.in.bytes()))
        .Define("SLOPE", d.epilogue.activation().HasSlope())
        .Define("RESIDUAL", d.epilogue.sum() != nullptr)
        .Body("quant/windows");
    builder.Fold("channels", d.in_channels)
        .Fold("out_height", window_.output[0])
        .Fold("out_width", window_.output[1])
        .Fold("kernel_h", window_.kernel[0])
        .Fold("kernel_w", window_.kernel[1]);
    windows_ = builder.Build()->CreateKernel("code_windows");
  }

 protected:
  void DoForward(const ConvArguments& a) override {
    CheckMemory(a.prepared, a.workspace);
    const ConvDescriptor& d = descriptor_;
    const QuantArguments& quant = *a.quant;
    const Window& w = window_;
    const ResidualStage stage(d.epilogue, d.in, quant);
    const bool slope = static_cast<bool>(quant.negative_multiplier);
    const int64_t positions = d.batch * w.output[0] * w.output[1];
    KernelArguments arguments{positions, d.in_channels};
    arguments.append({w.input[0], w.input[1], w.output[0], w.output[1]});
    arguments.append({w.kernel[0], w.kernel[1], w.stride[0], w.stride[1], w.pad[0], w.pad[1]});
    arguments.append({w.dilation[0], w.dilation[1], d.y_row(), PaddingWord(d.in, quant.zero_x)});
    arguments.append({stage.low(), stage.high(), WeightZero(d.in), a.x, a.prepared, quant.bias});
    arguments.append({quant.multiplier, quant.shift});
    arguments.push_back(slope ? quant.negative_multiplier : quant.multiplier);
    arguments.push_back(slope ? quant.negative_shift : quant.shift);
    stage.AddArguments(a.epilogue.residual, a.y, &arguments);
    arguments.push_back(KernelArgument(a.y, stage.zero()));
    windows_->Launch({positions, d.in_channels / lanes_}, arguments);
  }

 private:
  const int64_t lanes_;
  std::unique_ptr<Kernel> windows_;
};

class WindowColumnsOp final : public WindowsOp {
 public:
  WindowColumnsOp(Device* device, const ConvDescriptor& d)
      : WindowsOp(device, d), words_(d.in_channels * static_cast<int64_t>(d.in.bytes()) / 4) {
    rows_ = Rows(device);
    blocks_[0] = Ceil(window_.output[0], rows_);
    blocks_[1] = Ceil(window_.output[1], 2);
    ProgramBuilder builder(device, "columns of windows");
    builder.Types(d.in)
        .Define("MATRIX_UNITS", std::min(1, MatrixUnits(device)))
        .Define("CODE_BYTES", static_cast<int64_t>(d.in.bytes()))
        .Define("KERNEL_H", window_.kernel[0])
        .Define("KERNEL_W", window_.kernel[1])
        .Define("STRIDE_H", window_.stride[0])
        .Define("STRIDE_W", window_.stride[1])
        .Define("ROWS", rows_)
        .Body("quant/window_columns");
    builder.Fold("channels", d.in_channels)
        .Fold("height", window_.input[0])
        .Fold("width", window_.input[1])
        .Fold("out_height", window_.output[0])
        .Fold("out_width", window_.output[1])
        .Fold("blocks_h", blocks_[0])
        .Fold("blocks_w", blocks_[1]);
    columns_ = builder.Build()->CreateKernel("window_columns");
  }
  static bool Supports(const ConvDescriptor& d) {
    const Window w = Window::Of(d.geometry);
    for (int a = 0; a < 2; ++a) {
      if (w.kernel[a] > 4 || w.stride[a] > 2 || w.dilation[a] != 1) return false;
    }
    return d.in_channels * static_cast<int64_t>(d.in.bytes()) % 4 == 0 &&
           !d.epilogue.activation().HasSlope() && !d.epilogue.sum();
  }

 protected:
  void DoForward(const ConvArguments& a) override {
    CheckMemory(a.prepared, a.workspace);
    const ConvDescriptor& d = descriptor_;
    const QuantArguments& quant = *a.quant;
    const Window& w = window_;
    const ResidualStage stage(d.epilogue, d.in, quant);
    const int64_t blocks = d.batch * blocks_[0] * blocks_[1];
    KernelArguments arguments{blocks, d.in_channels};
    arguments.append({w.input[0], w.input[1], w.output[0], w.output[1], blocks_[0], blocks_[1]});
    arguments.append({w.pad[0], w.pad[1], d.y_row(), PaddingWord(d.in, quant.zero_x)});
    arguments.append({stage.low(), stage.high(), a.x, a.prepared, quant.bias});
    arguments.append({quant.multiplier, quant.shift, KernelArgument(a.y, stage.zero())});
    columns_->Launch({blocks, words_}, arguments);
  }

 private:
  // Rows of an item: many, which share what they read, if there are items enough for all units of
  // the device. More than 4 need more registers than two work groups of a unit have.
  int64_t Rows(Device* device) const {
    constexpr int64_t kItems = 512;  // of a compute unit
    const int64_t columns = descriptor_.batch * Ceil(window_.output[1], 2) * words_;
    for (const int64_t rows : {4, 2}) {
      const int64_t items = columns * Ceil(window_.output[0], rows);
      if (items >= kItems * device->info().compute_units) return rows;
    }
    return 1;
  }

  const int64_t words_;  // of the channels of a position
  int64_t rows_ = 1, blocks_[2] = {1, 1};
  std::unique_ptr<Kernel> columns_;
};

}  // namespace

std::unique_ptr<ConvOp> MakeCodeWindows(Device* device, const ConvDescriptor& d) {
  if (WindowColumnsOp::Supports(d)) return std::make_unique<WindowColumnsOp>(device, d);
  return std::make_unique<CodeWindowsOp>(device, d);
}

}  // namespace caffe

#include "caffe/library/generated/float_windows.hpp"

#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/device_array.hpp"
#include "caffe/library/epilogue_stages.hpp"
#include "caffe/library/generated/matrix_product.hpp"
#include "caffe/library/rounding.hpp"

namespace caffe {
namespace {

constexpr int64_t kSpan = 8, kOutputs = 4;

class FloatWindowsOp final : public ConvOp {
 public:
  FloatWindowsOp(Device* device, const ConvDescriptor& d)
      : ConvOp(d),
        window_(MatrixProduct::Window::Of(d.geometry)),
        padded_(Ceil(d.in_channels, kSpan) * kSpan),
        stages_(d.epilogue) {
    ProgramBuilder builder(device, "depthwise last");
    builder.Types({kFloat, d.in, d.out})
        .Define("OUTPUTS", kOutputs)
        .Define("BIAS", d.epilogue.bias != Epilogue::Bias::kNone)
        .Define("RESIDUAL", d.epilogue.sum() != nullptr);
    stages_.Define(&builder, "added[k]");
    builder.Body("conv/depthwise_last");
    const KernelArguments geometry = Geometry();
    for (size_t i = 0; i < geometry.size(); ++i) {
      builder.Fold(kNames[i], geometry[i].integer);
    }
    const auto program = builder.Build();
    windows_ = program->CreateKernel("depthwise_last");
    pack_ = program->CreateKernel("pack_depthwise");
  }
  const char* library() const override { return "matrix"; }
  int64_t prepared_bytes() const override {
    return Taps() * padded_ * static_cast<int64_t>(descriptor_.in.bytes());
  }
  void Prepare(DevicePtr weights, DevicePtr prepared) override {
    pack_->Launch({Taps(), padded_}, {Taps(), descriptor_.in_channels, padded_, weights, prepared});
  }

 protected:
  void DoForward(const ConvArguments& a) override {
    CheckMemory(a.prepared, a.workspace);
    const int64_t rows = descriptor_.batch * window_.output[0] * Blocks();
    KernelArguments arguments{rows};
    const KernelArguments geometry = Geometry();
    arguments.append(geometry.begin(), geometry.end());
    stages_.AddArguments(a.epilogue, a.y, &arguments);
    arguments.append({a.x, a.prepared, a.bias ? a.bias : BufferOf(a.y), a.y});
    windows_->Launch({rows, padded_}, arguments);
  }

 private:
  static constexpr const char* kNames[] = {
      "channels", "padded",   "blocks",   "in_h",  "in_w",  "out_h",      "out_w",      "kernel_h",
      "kernel_w", "stride_h", "stride_w", "pad_h", "pad_w", "dilation_h", "dilation_w", "y_row"};

  int64_t Taps() const { return window_.kernel[0] * window_.kernel[1]; }
  int64_t Blocks() const { return Ceil(window_.output[1], kOutputs); }
  KernelArguments Geometry() const {
    const auto& w = window_;
    return {descriptor_.in_channels,
            padded_,
            Blocks(),
            w.input[0],
            w.input[1],
            w.output[0],
            w.output[1],
            w.kernel[0],
            w.kernel[1],
            w.stride[0],
            w.stride[1],
            w.pad[0],
            w.pad[1],
            w.dilation[0],
            w.dilation[1],
            descriptor_.y_row()};
  }

  const MatrixProduct::Window window_;
  const int64_t padded_;  // channels
  const EpilogueStages stages_;
  std::unique_ptr<Kernel> windows_, pack_;
};

}  // namespace

std::unique_ptr<ConvOp> MakeFloatWindows(Device* device, const ConvDescriptor& d) {
  return std::make_unique<FloatWindowsOp>(device, d);
}

}  // namespace caffe

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/library/layout_converter.hpp"
#include "caffe/library/layout_convolution.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/multiplexer.hpp"
#include "caffe/library/workspace_layout.hpp"

namespace caffe {
namespace {

ConvDescriptor InCOrder(ConvDescriptor d) {
  d.x_layout = d.y_layout = Layout::kNCHW;
  return d;
}

ConvDescriptor ChannelsLast(ConvDescriptor d) {
  d.x_layout = d.y_layout = Layout::kNHWC;
  return d;
}

// Converts operands to the layouts of another operator, computes with it, and converts the results.
class LayoutConvOp final : public ConvOp {
 public:
  LayoutConvOp(Device* device, const ConvDescriptor& d, std::unique_ptr<ConvOp> inner,
               const char* library)
      : ConvOp(d),
        inner_(std::move(inner)),
        library_(library),
        x_converter_(device, d.in),
        y_converter_(device, d.out),
        in_(d.geometry.input_count()),
        out_(d.geometry.output_count()) {
    WorkspaceLayout layout;
    layout.Add(inner_->workspace_bytes());
    const auto bytes = [&](DataType type, int64_t channels, int64_t positions) {
      return d.batch * channels * positions * static_cast<int64_t>(type.bytes());
    };
    const int64_t y_bytes = bytes(d.out, d.out_channels, out_);
    if (d.x_layout != Inner().x_layout) x_ = layout.Add(bytes(d.in, d.in_channels, in_));
    if (d.y_layout != Inner().y_layout) {
      y_ = layout.Add(y_bytes);
      if (d.epilogue.sum()) residual_ = layout.Add(y_bytes);
    }
    bytes_ = layout.bytes();
  }
  const char* library() const override { return library_; }
  int64_t workspace_bytes() const override { return bytes_; }
  int64_t prepared_bytes() const override { return inner_->prepared_bytes(); }
  std::string prepared_form() const override { return inner_->prepared_form(); }
  void Prepare(DevicePtr weights, DevicePtr prepared) override {
    inner_->Prepare(weights, prepared);
  }

 protected:
  void DoForward(const ConvArguments& given) override {
    CheckMemory(given.prepared, given.workspace);
    ConvArguments a = given;
    a.x = X(given.x, given.workspace);
    if (y_ >= 0) a.y = (given.workspace + y_).As(given.y);
    if (residual_ >= 0) {
      a.epilogue.residual = (given.workspace + residual_).As(given.epilogue.residual);
      ConvertY(given.epilogue.residual, a.epilogue.residual, Inner().y_layout);
    }
    inner_->Forward(a);
    if (y_ >= 0) ConvertY(a.y, given.y, descriptor_.y_layout);
  }

  void DoBackwardData(const ConvGradients& given) override {
    CheckMemory(given.prepared, given.workspace);
    ConvGradients g = given;
    g.y_diff = YDiff(given);
    if (x_ >= 0) g.x_diff = (given.workspace + x_).As(given.x_diff);
    inner_->BackwardData(g);
    if (x_ >= 0) ConvertX(g.x_diff, given.x_diff, descriptor_.x_layout);
  }

  void DoBackwardWeights(const ConvGradients& given) override {
    CheckWorkspace(given.workspace);
    ConvGradients g = given;
    g.x = X(given.x, given.workspace);
    g.y_diff = YDiff(given);
    inner_->BackwardWeights(g);
  }

  void DoBackwardBias(const ConvGradients& given) override {
    CheckWorkspace(given.workspace);
    ConvGradients g = given;
    g.y_diff = YDiff(given);
    inner_->BackwardBias(g);
  }

 private:
  const ConvDescriptor& Inner() const { return inner_->descriptor(); }
  void ConvertX(DevicePtr from, DevicePtr to, Layout layout) {
    x_converter_.Run(descriptor_.batch, descriptor_.in_channels, in_, from, to, layout);
  }
  void ConvertY(DevicePtr from, DevicePtr to, Layout layout) {
    y_converter_.Run(descriptor_.batch, descriptor_.out_channels, out_, from, to, layout);
  }
  DevicePtr X(DevicePtr x, DevicePtr workspace) {
    if (x_ < 0) return x;
    const DevicePtr converted = (workspace + x_).As(x);
    ConvertX(x, converted, Inner().x_layout);
    return converted;
  }
  DevicePtr YDiff(const ConvGradients& given) {
    if (y_ < 0) return given.y_diff;
    const DevicePtr converted = (given.workspace + y_).As(given.y_diff);
    ConvertY(given.y_diff, converted, Inner().y_layout);
    return converted;
  }

  std::unique_ptr<ConvOp> inner_;
  const char* const library_;
  LayoutConverter x_converter_, y_converter_;
  int64_t in_, out_;                         // positions
  int64_t x_ = -1, y_ = -1, residual_ = -1;  // offsets in the workspace; -1: not converted
  int64_t bytes_ = 0;
};

// Computes a y without gaps and copies it into its part of a larger array.
class PartConvOp final : public ConvOp {
 public:
  PartConvOp(Device* device, const ConvDescriptor& d, std::unique_ptr<ConvOp> inner)
      : ConvOp(d), inner_(std::move(inner)), positions_(d.batch * d.geometry.output_count()) {
    copy_ = ProgramBuilder(device, "copy_rows")
                .Types(TypeTriple::Equal(d.out))
                .Body("blas/copy_rows")
                .Build()
                ->CreateKernel("copy_rows");
    WorkspaceLayout layout;
    layout.Add(inner_->workspace_bytes());
    y_ = layout.Add(positions_ * d.out_channels * static_cast<int64_t>(d.out.bytes()));
    bytes_ = layout.bytes();
  }
  const char* library() const override { return "converted"; }
  int64_t workspace_bytes() const override { return bytes_; }
  int64_t prepared_bytes() const override { return inner_->prepared_bytes(); }
  void Prepare(DevicePtr weights, DevicePtr prepared) override {
    inner_->Prepare(weights, prepared);
  }

 protected:
  void DoForward(const ConvArguments& given) override {
    CheckMemory(given.prepared, given.workspace);
    ConvArguments a = given;
    a.y = (given.workspace + y_).As(given.y);
    inner_->Forward(a);
    const int64_t channels = descriptor_.out_channels;
    copy_->Launch({positions_, channels},
                  {positions_, channels, channels, descriptor_.y_pitch, a.y, given.y, 1.0});
  }

 private:
  std::unique_ptr<ConvOp> inner_;
  std::unique_ptr<Kernel> copy_;
  int64_t positions_;
  int64_t y_ = 0, bytes_ = 0;
};

// Gradients of half kinds in kNCHW, where a library is faster in kNHWC; and groups of rows, which a
// library may know in kNHWC only.
bool ComputesChannelsLast(Device* device, const ConvDescriptor& d) {
  const ConvDescriptor last = ChannelsLast(d);
  if (d.row_groups > 0) {
    const bool converts = d.x_layout != last.x_layout || d.y_layout != last.y_layout;
    return converts && HasRow(device, last);
  }
  const bool half = d.in.is_float() && d.in != kFloat && d.in != kDouble;
  return half && !d.has_private_layout() && (d.backward_data || d.backward_weights) &&
         OnDevices(*device) && Multiplexer::PreferredLayout(device, d) == Layout::kNHWC;
}

}  // namespace

std::unique_ptr<ConvOp> MakeConverted(Device* device, const ConvDescriptor& descriptor,
                                      std::unique_ptr<ConvOp> inner, const char* library) {
  return std::make_unique<LayoutConvOp>(device, descriptor, std::move(inner), library);
}

ConvLibrary ChannelsLastLibrary(const ConvFactory& make) {
  ConvLibrary row;
  row.name = "channels_last";
  row.supports = &ComputesChannelsLast;
  row.prefers_nhwc = [](Device*, const ConvDescriptor&) { return false; };
  row.knows_row_groups = true;
  row.compared = true;
  row.make = [make](Device* device, const ConvDescriptor& d) -> std::unique_ptr<ConvOp> {
    ConvDescriptor last = ChannelsLast(d);
    // A library that converts x itself.
    last.x_layout = Layout::kNCHW;
    if (!Multiplexer::KnowsLayouts(device, last)) last.x_layout = Layout::kNHWC;
    return MakeConverted(device, d, make(device, last), "channels_last");
  };
  return row;
}

ConvLibrary ConvertingLibrary(const ConvFactory& make) {
  ConvLibrary row;
  row.name = "converted";
  row.supports = [](Device*, const ConvDescriptor& d) {
    return d.has_private_layout() && !d.quantized();
  };
  row.prefers_nhwc = [](Device*, const ConvDescriptor&) { return false; };
  row.knows_pitch = true;
  row.compared_nhwc = true;
  row.make = [make](Device* device, const ConvDescriptor& d) -> std::unique_ptr<ConvOp> {
    if (d.y_pitch > 0) {
      ConvDescriptor whole = d;
      whole.y_pitch = 0;
      return std::make_unique<PartConvOp>(device, d, make(device, whole));
    }
    return MakeConverted(device, d, make(device, InCOrder(d)), "converted");
  };
  return row;
}

}  // namespace caffe

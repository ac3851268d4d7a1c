#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>

#include "caffe/device/device.hpp"
#include "caffe/library/bias.hpp"
#include "caffe/library/cudnn/channels_last.hpp"
#include "caffe/library/cudnn/conv_graph.hpp"
#include "caffe/library/cudnn/plan_choice.hpp"
#include "caffe/library/libraries.hpp"
#include "caffe/library/workspace_layout.hpp"

namespace caffe {
namespace {

using cudnn::Chosen;
using cudnn::ConvPass;
using cudnn::Operands;
using cudnn::Pack;
using cudnn::StagesPass;

int64_t Bytes(DataType type, int64_t count) { return count * static_cast<int64_t>(type.bytes()); }

bool Narrow(DataType type) { return type == kHalf || type == kBfloat16; }

class CudnnConvOp final : public ConvOp {
 public:
  CudnnConvOp(Device* device, const ConvDescriptor& d)
      : ConvOp(d),
        device_(device),
        session_(cudnn::Session::Of(device)),
        last_(device, d),
        bias_(device, d.out, kFloat, Outer(d), d.out_channels, Inner(d), std::nullopt,
              d.backward_weights) {
    const ConvDescriptor& form = last_.form();
    const auto choose = [&](ConvPass pass) {
      return cudnn::ChoosePlan(device, session_, form, pass);
    };
    if (d.forward) forward_ = choose(ConvPass::kForward);
    if (d.backward_data) data_ = choose(ConvPass::kData);
    if (d.backward_weights) weights_ = choose(ConvPass::kWeights);
    int64_t plans = 0;
    for (const auto* chosen : {&forward_, &data_, &weights_}) {
      if (*chosen) plans = std::max(plans, (*chosen)->plan->workspace);
    }
    layout_.Add(plans);
    if (last_.changes_images()) images_at_ = layout_.Add(last_.image_bytes());
    if (d.backward_weights) {
      gradient_at_ = layout_.Add(Bytes(kFloat, form.weight_count()));
      last_.MakeAddition(device, cudnn::GradientType(form, weights_->fused));
    }
    if (forward_ && !forward_->fused && !d.epilogue.empty()) {
      epilogue_ = std::make_unique<StagesPass>(device, descriptor_);
    }
  }
  const char* library() const override { return "cudnn"; }
  int64_t workspace_bytes() const override {
    return std::max(layout_.bytes(), bias_.workspace_bytes());
  }
  int64_t prepared_bytes() const override {
    const ConvDescriptor& form = last_.form();
    const bool reads = form.forward || form.backward_data;
    return last_.changes_weights() && reads ? Bytes(form.in, form.weight_count()) : 0;
  }
  void Prepare(DevicePtr weights, DevicePtr prepared) override {
    if (prepared_bytes() > 0) last_.FoldWeights(weights, prepared);
  }

 protected:
  void DoForward(const ConvArguments& a) override {
    CheckMemory(a.prepared, a.workspace);
    Operands o{Images(a.x, a.workspace), last_.changes_weights() ? a.prepared : a.weights, a.y};
    // Some engines fail with an array that their graph does not name.
    const Epilogue& epilogue = last_.form().epilogue;
    if (epilogue.bias != Epilogue::Bias::kNone) o.bias = a.bias;
    if (epilogue.sum()) o.residual = a.epilogue.residual;
    o.workspace = a.workspace;
    device_->NoteUse({o.x.ReadOnly(), o.w.ReadOnly(), o.y, o.workspace, o.bias.ReadOnly(),
                      o.residual.ReadOnly()});
    forward_pack_.Execute(session_, *forward_, o);
    device_->CountLibraryCall();
    if (epilogue_) epilogue_->Run(a.y, a.bias, a.epilogue);
  }

  void DoBackwardData(const ConvGradients& g) override {
    CheckMemory(g.prepared, g.workspace);
    g.x_diff.CheckWritable();
    const bool changes = last_.changes_images();
    Operands o{changes ? g.workspace + images_at_ : g.x_diff,
               last_.changes_weights() ? g.prepared : g.weights, g.y_diff};
    o.workspace = g.workspace;
    device_->NoteUse({o.x, o.w.ReadOnly(), o.y.ReadOnly(), o.workspace});
    data_pack_.Execute(session_, *data_, o);
    device_->CountLibraryCall();
    if (changes) last_.UnfoldImages(o.x, g.x_diff);
  }

  void DoBackwardWeights(const ConvGradients& g) override {
    CheckWorkspace(g.workspace);
    Operands o{Images(g.x, g.workspace), g.workspace + gradient_at_, g.y_diff};
    o.workspace = g.workspace;
    device_->NoteUse({o.x.ReadOnly(), o.w, o.y.ReadOnly(), o.workspace});
    weights_pack_.Execute(session_, *weights_, o);
    device_->CountLibraryCall();
    last_.AddGradient(o.w, g.w_diff);
  }

  void DoBackwardBias(const ConvGradients& g) override {
    bias_.Backward(g.y_diff, g.b_diff, g.workspace);
  }

 private:
  // y as [outer, channels, inner].
  static int64_t Outer(const ConvDescriptor& d) {
    return d.y_layout == Layout::kNHWC ? d.batch * d.geometry.output_count() : d.batch;
  }
  static int64_t Inner(const ConvDescriptor& d) {
    return d.y_layout == Layout::kNHWC ? 1 : d.geometry.output_count();
  }

  // x in the form in which cuDNN reads it.
  DevicePtr Images(DevicePtr x, DevicePtr workspace) {
    if (!last_.changes_images()) return x;
    last_.FoldImages(x, workspace + images_at_);
    return workspace + images_at_;
  }

  Device* device_;
  cudnn::Session* const session_;
  cudnn::ChannelsLast last_;
  BiasOp bias_;
  std::shared_ptr<const Chosen> forward_, data_, weights_;
  Pack forward_pack_, data_pack_, weights_pack_;
  WorkspaceLayout layout_;
  int64_t images_at_ = 0, gradient_at_ = 0;
  std::unique_ptr<StagesPass> epilogue_;
};

// Whether cuDNN can describe the convolution.
bool Describes(const ConvDescriptor& d) {
  if (d.quantized()) return false;
  // Images with few channels are copied anyway.
  if (d.x_layout != d.y_layout && !cudnn::ChannelsLast::ReadsCOrder(d)) return false;
  if (d.in != kFloat && !Narrow(d.in)) return false;
  const ConvGeometry& g = d.geometry;
  if (g.axes() > 3) return false;
  // Our own kernels compute these better in NCHW.
  if (d.x_layout == Layout::kNCHW && d.group > 1 && d.group == d.in_channels) return false;
  // Some engines of cuDNN 9.19 compute another result of one position in C order, whose strides are
  // equal. Without other taps the graph has the strides of channels last.
  const bool one = g.input_count() == 1 && g.output_count() == 1;
  if (Narrow(d.in) && one && g.kernel_count() > 1 && d.x_layout == Layout::kNCHW) return false;
  // An engine of cuDNN 9.14 for gradients of weights reads 8 channels at once, also where an image
  // of three axes has fewer, and the device stops at the address.
  constexpr int64_t kReadChannels = 8;
  const bool whole =
      d.in_channels / d.group % kReadChannels == 0 && d.out_channels / d.group % kReadChannels == 0;
  if (Narrow(d.in) && g.axes() > 2 && d.backward_weights && !whole) return false;
  const Shape padded = g.padded();
  for (int i = 0; i < g.axes(); ++i) {
    if (padded[i] != g.input[i] + 2 * g.pad[i]) return false;  // windows reach beyond the padding
  }
  return true;
}

bool Supports(Device* device, const ConvDescriptor& descriptor) {
  ConvDescriptor d = descriptor;
  d.geometry.Normalize();
  if (d.in.is_custom() || !Describes(d) || !cudnn::Find()) return false;
  d = cudnn::ChannelsLast::FormOf(d);
  return (!d.forward || cudnn::HasPlan(device, d, ConvPass::kForward)) &&
         (!d.backward_data || cudnn::HasPlan(device, d, ConvPass::kData)) &&
         (!d.backward_weights || cudnn::HasPlan(device, d, ConvPass::kWeights));
}

// Matrix units read channels last. Engines for float without them read NCHW.
bool PrefersNhwc(Device* device, const ConvDescriptor& descriptor) {
  if (!Narrow(descriptor.in)) return false;
  ConvDescriptor d = descriptor;
  d.x_layout = d.y_layout = Layout::kNHWC;
  return OnCuda(*device) && Supports(device, d);
}

}  // namespace

ConvLibrary CudnnLibrary() {
  ConvLibrary row;
  row.name = "cudnn";
  row.place = &OnCuda;
  row.supports = &Supports;
  row.make = [](Device* device, const ConvDescriptor& d) -> std::unique_ptr<ConvOp> {
    return std::make_unique<CudnnConvOp>(device, d);
  };
  row.prefers_nhwc = &PrefersNhwc;
  row.knows_pitch = true;
  row.compared = row.compared_nhwc = true;
  return row;
}

}  // namespace caffe
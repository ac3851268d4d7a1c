#include <algorithm>

#include "caffe.pb.h"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// Bilinear resizing of each channel with aligned corners (DeepLab, PSPNet). Of I inputs and O
// outputs along an axis, output o is at position o (I - 1) / (O - 1), or 0 if O is 1, and is the
// weighted mean of the two inputs around it. The gradient distributes with the same weights.
// First, pad_beg rows and columns are cut off at the beginning and pad_end at the end (both are
// negative or 0). The number of outputs follows from the remaining I, by the first of these that is
// given:
//   shrink_factor alone: (I - 1) / shrink_factor + 1, rounded down
//   zoom_factor alone:   I + (I - 1) (zoom_factor - 1)
//   height and width:    these
//   both factors:        shrinking, then zooming
//   bottom 1:            its last two extents
// bottom 0: [N, C, H, W]; bottom 1 (optional): 4 axes, it gets no gradient; top 0: [N, C, h, w].
// interp_param: height, width, zoom_factor, shrink_factor, pad_beg (0), pad_end (0).
// Types: float kinds; quant8 and quant16 forward: the mean of codes, rounded once, half away from
// zero, in the range of the bottom.
class Interp : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  struct Axis {
    int64_t whole = 0, input = 0, output = 0;  // `input` of `whole` remain
  };
  // The extents of axis `index`: 0 is height, 1 is width.
  Axis MakeAxis(const BlobVec& bottom, int index) const;
  KernelArguments Geometry() const;

  int64_t planes_ = 0;
  Axis height_, width_;
  std::unique_ptr<Kernel> forward_, backward_;
};

template <class Dtype, class MItype, class MOtype>
using InterpLayer = Layer<Dtype, MItype, MOtype, Interp>;

// Positions are 32-bit products of an input's and an output's extent.
constexpr int64_t kLargest = int64_t{1} << 30;
// Outputs of both axes, whose product is the divisor of a mean of codes.
constexpr int64_t kLargestOfCodes = int64_t{1} << 40;

void Interp::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const InterpParameter& p = layer_param().interp_param();
  CAFFE_CHECK(p.pad_beg() <= 0 && p.pad_end() <= 0, Where(), ": pad_beg ", p.pad_beg(),
              " and pad_end ", p.pad_end(),
              " must be 0 or negative: rows and columns can be cut off, not added");
  CAFFE_CHECK(p.shrink_factor() >= 1 && p.zoom_factor() >= 1, Where(), ": shrink_factor ",
              p.shrink_factor(), " and zoom_factor ", p.zoom_factor(), " must be positive");
  CAFFE_CHECK(p.has_height() == p.has_width() && (!p.has_height() || p.height() > 0) &&
                  (!p.has_width() || p.width() > 0),
              Where(), ": height ", p.height(), " and width ", p.width(),
              " must both be given and positive");
  CAFFE_CHECK(p.has_height() || p.has_shrink_factor() || p.has_zoom_factor() || bottom.size() > 1,
              Where(), ": give height and width, zoom_factor, shrink_factor, or a second bottom ",
              "that has the output's size");
  backward_.reset();
  if (types().compute.is_quantized()) {
    forward_ = MakeKernel("resize/interp_codes", "interp_codes");
    return;
  }
  forward_ = MakeKernel("resize/interp", "interp_forward");
  backward_ = MakeKernel("resize/interp", "interp_backward");
}

Interp::Axis Interp::MakeAxis(const BlobVec& bottom, int index) const {
  const InterpParameter& p = layer_param().interp_param();
  Axis axis;
  axis.whole = bottom[0]->shape(2 + index);
  axis.input = axis.whole + p.pad_beg() + p.pad_end();
  CAFFE_CHECK(axis.input > 0, Where(), ": pad_beg ", p.pad_beg(), " and pad_end ", p.pad_end(),
              " leave nothing of the bottom of shape ", bottom[0]->shape_string());
  const bool one_factor = p.has_shrink_factor() != p.has_zoom_factor();
  if (p.has_height() && !one_factor) {
    axis.output = index == 0 ? p.height() : p.width();
  } else if (p.has_shrink_factor() || p.has_zoom_factor()) {
    // A factor that is not set is 1.
    const int64_t shrunk = (axis.input - 1) / p.shrink_factor() + 1;
    axis.output = shrunk + (shrunk - 1) * (p.zoom_factor() - 1);
  } else {
    axis.output = bottom[1]->shape(2 + index);
  }
  CAFFE_CHECK(axis.output > 0, Where(), ": the second bottom, of shape ",
              bottom.back()->shape_string(), ", must have a positive height and width");
  CAFFE_CHECK(axis.output <= kLargest / axis.input, Where(), ": ", axis.input, " inputs and ",
              axis.output, " outputs of one axis are too many; their product must not be larger ",
              "than 2^30");
  return axis;
}

void Interp::Reshape(const BlobVec& bottom, const BlobVec& top) {
  for (const BlobBase* blob : bottom) {
    CAFFE_CHECK(blob->num_axes() == 4, Where(), ": needs bottoms of 4 axes, not of shape ",
                blob->shape_string());
  }
  height_ = MakeAxis(bottom, 0);
  width_ = MakeAxis(bottom, 1);
  CAFFE_CHECK(types().compute.is_float() || height_.output <= kLargestOfCodes / width_.output,
              Where(), ": ", height_.output, "x", width_.output,
              " outputs are more than 2^40, which ", types().name(),
              " does not support; give the layer a float type");
  planes_ = bottom[0]->count(0, 2);
  top[0]->Reshape({bottom[0]->shape(0), bottom[0]->shape(1), height_.output, width_.output});
}

KernelArguments Interp::Geometry() const {
  return {planes_,
          height_.whole,
          width_.whole,
          -layer_param().interp_param().pad_beg(),
          height_.input,
          width_.input,
          height_.output,
          width_.output,
          std::max<int64_t>(height_.output - 1, 1),
          std::max<int64_t>(width_.output - 1, 1)};
}

void Interp::Forward(const BlobVec& bottom, const BlobVec& top) {
  KernelArguments arguments = Geometry();
  arguments.push_back(In(bottom, 0));
  arguments.push_back(Out(top, 0));
  forward_->Launch({planes_ * height_.output, width_.output}, arguments);
}

void Interp::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                      const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  if (types().compute.is_quantized()) return LayerBase::Backward(top, propagate_down, bottom);
  KernelArguments arguments = Geometry();
  arguments.push_back(top[0]->Diff());
  arguments.push_back(bottom[0]->MutableDiff());
  backward_->Launch({planes_ * height_.whole, width_.whole}, arguments);
}

LayerFacts Interp::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  facts.range = LayerFacts::Range::kCarried;
  return facts;
}

}  // namespace

void RegisterInterpLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.max_bottom = 2;
  traits.no_gradient_bottoms = {1};
  traits.types = BuiltInTypes();
  traits.backward_reads = Always({});
  traits.per_item = Always(true);
  traits.summary = "bilinear resizing with aligned corners";
  registry.Add<InterpLayer>("Interp", traits);
}

}  // namespace caffe

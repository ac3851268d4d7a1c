#include <utility>

#include "caffe.pb.h"
#include "caffe/layer/broadcast.hpp"
#include "caffe/layer/channel_sums.hpp"
#include "caffe/layer/code_affine.hpp"
#include "caffe/layer/input_copy.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// y = s x, or s x + b with bias_term; s and b repeated along the axes that they do not have.
//   dE/dx = s dE/dy;  dE/ds (+)= the sum of x dE/dy and dE/db += that of dE/dy over those axes
// bottom 0, top 0: any shape, the same; in place allowed: a copy of the bottom is kept if dE/ds is
// needed. s is bottom 1, or a learned blob; its axes are those of bottom 0 from `axis` on. The
// gradient of a learned s is added, that of a bottom is written.
// blobs: s, if there is one bottom, of shape bottom 0 [axis, axis + num_axes); b, with bias_term,
// of the shape of s.
// scale_param: axis (1), bias_term (false), bias_filler (constant 0), and for a learned s: num_axes
//   (1; -1 for all, 0 for one value), filler (constant 1).
// Types: float kinds; with a learned s, quant8 and quant16 forward (CodeAffine), where y has a
// range of its own. Learned blobs are masters (float, double for double).
class Scale : public CodedLayer {
 public:
  using CodedLayer::CodedLayer;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  LayerArrays Arrays(const BlobVec& bottom, const BlobVec& top) override {
    return {input_.Arrays(*bottom[0], *top[0], KeepsInput()), {}};
  }
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  // Whether Backward reads the bottom's data.
  bool KeepsInput() const {
    return need_backward() && types().compute.is_float() && (!learned_ || param_propagate_down(0));
  }
  // y = s x.
  void Multiply(const BlobBase& s, KernelArgument x, KernelArgument y);

  bool learned_ = true;
  int bias_index_ = -1;  // among blobs(); -1 without bias_term
  int axis_ = 0;         // of bottom 0, where s begins
  Broadcast shape_;
  InputCopy input_;
  CodeAffine codes_;  // of quantized types
  ChannelSums scale_sums_, bias_sums_, both_sums_;
  std::unique_ptr<Kernel> rows_, columns_, bias_rows_, bias_columns_;
};

template <class Dtype, class MItype, class MOtype>
using ScaleLayer = Layer<Dtype, MItype, MOtype, Scale>;

// Computes scales and shifts, one for each element of the learned blobs.
CodeAffine::Function AffineOf(std::vector<const BlobBase*> sources) {
  return [sources = std::move(sources)](std::vector<double>* scale, std::vector<double>* shift) {
    *scale = sources[0]->DataAsDouble();
    *shift = sources.size() > 1 ? sources[1]->DataAsDouble() : std::vector<double>(scale->size());
  };
}

void Scale::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const ScaleParameter& parameter = layer_param().scale_param();
  learned_ = bottom.size() == 1;
  if (learned_) {
    FillerParameter filler;
    filler.set_type("constant");
    filler.set_value(1);
    if (parameter.has_filler()) filler = parameter.filler();
    AddParameter(
        0, Broadcast::ParameterShape(Where(), *bottom[0], parameter.axis(), parameter.num_axes()),
        filler);
  }
  bias_index_ = parameter.bias_term() ? (learned_ ? 1 : 0) : -1;
  const Shape shape = learned_ ? blobs_[0]->shape() : bottom[1]->shape();
  if (bias_index_ >= 0) AddParameter(bias_index_, shape, parameter.bias_filler());
  input_.SetDevice(device());
  if (types().compute.is_quantized()) {
    CAFFE_CHECK(learned_, Where(), ": multiplies two blobs, which is not supported in ",
                types().name(), "; give the layer a float type");
    std::vector<const BlobBase*> sources;
    for (const auto& blob : blobs_) sources.push_back(blob.get());
    codes_ = CodeAffine(sources, AffineOf(sources), blobs_[0]->count(), types().compute, device(),
                        Where());
    UseCodes(&codes_);
    return;
  }
  const DataType type = learned_ ? master_type() : types().in;
  const TypeTriple triple{type, types().in, type};
  rows_ = MakeKernel("norm/scale", "scale_rows", triple);
  columns_ = MakeKernel("norm/scale", "scale_columns", triple);
  bias_rows_ = MakeKernel("norm/scale", "scale_bias_rows", triple);
  bias_columns_ = MakeKernel("norm/scale", "scale_bias_columns", triple);
  scale_sums_ = ChannelSums(&workspace(), types(), type);
  if (bias_index_ < 0) return;
  bias_sums_ = ChannelSums(&workspace(), types(), master_type());
  if (learned_) both_sums_ = ChannelSums(&workspace(), types(), master_type(), 2);
}

void Scale::Reshape(const BlobVec& bottom, const BlobVec& top) {
  const BlobBase& s = learned_ ? *blobs_[0] : *bottom[1];
  const int axis = layer_param().scale_param().axis();
  shape_ = Broadcast::Make(Where(), *bottom[0], axis, s.shape());
  axis_ = s.num_axes() > 0 ? bottom[0]->CanonicalAxisIndex(axis) : 0;
  if (bias_index_ >= 0) {
    const BlobBase& b = *blobs_[bias_index_];
    CAFFE_CHECK(b.shape() == s.shape(), Where(), ": the bias of shape ", b.shape_string(),
                " was made for another scale, which has shape ", s.shape_string());
  }
  top[0]->ReshapeLike(*bottom[0]);
  if (types().compute.is_quantized()) return;
  const bool trains = phase() == TRAIN;
  scale_sums_.Reshape(shape_.outer, shape_.channels, shape_.inner, trains);
  if (bias_index_ < 0) return;
  bias_sums_.Reshape(shape_.outer, shape_.channels, shape_.inner, trains);
  if (learned_) both_sums_.Reshape(shape_.outer, shape_.channels, shape_.inner, trains);
}

void Scale::Multiply(const BlobBase& s, KernelArgument x, KernelArgument y) {
  if (shape_.columns()) {
    columns_->Launch({shape_.outer, shape_.channels},
                     {shape_.outer, shape_.channels, x, s.Data(), y});
  } else {
    const int64_t rows = shape_.outer * shape_.channels;
    rows_->Launch({rows, shape_.inner}, {rows, shape_.inner, shape_.channels, x, s.Data(), y});
  }
}

void Scale::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (types().compute.is_quantized()) return codes_.Launch(shape_, In(bottom, 0), Out(top, 0));
  input_.Keep(*bottom[0], *top[0], KeepsInput());
  const BlobBase& s = learned_ ? *blobs_[0] : *bottom[1];
  const KernelArgument x = bottom[0]->Data(), y = top[0]->MutableData();
  if (bias_index_ < 0) {
    Multiply(s, x, y);
    return;
  }
  const KernelArgument b = blobs_[bias_index_]->Data();
  if (shape_.columns()) {
    bias_columns_->Launch({shape_.outer, shape_.channels},
                          {shape_.outer, shape_.channels, x, s.Data(), b, y});
  } else {
    const int64_t rows = shape_.outer * shape_.channels;
    bias_rows_->Launch({rows, shape_.inner},
                       {rows, shape_.inner, shape_.channels, x, s.Data(), b, y});
  }
}

void Scale::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                     const BlobVec& bottom) {
  if (types().compute.is_quantized()) return LayerBase::Backward(top, propagate_down, bottom);
  // In place, the bottom's diff overwrites the top's, so it is computed last.
  const bool bias = bias_index_ >= 0 && param_propagate_down(bias_index_);
  const bool scale =
      (learned_ ? param_propagate_down(0) : propagate_down[1]) && bottom[0]->count() > 0;
  if (learned_ && bias && scale) {
    both_sums_.SumAndDot(input_.Data(*bottom[0], *top[0]), top[0]->Diff());
    both_sums_.FinishOne(0, true, blobs_[bias_index_]->MutableDiff());
    both_sums_.FinishOne(1, true, blobs_[0]->MutableDiff());
  } else if (bias) {
    bias_sums_.Sum(top[0]->Diff());
    bias_sums_.Finish(true, blobs_[bias_index_]->MutableDiff());
  }
  if (scale && !(learned_ && bias)) {
    scale_sums_.Dot(input_.Data(*bottom[0], *top[0]), top[0]->Diff());
    scale_sums_.Finish(learned_, learned_ ? blobs_[0]->MutableDiff() : bottom[1]->MutableDiff());
  }
  if (propagate_down[0]) {
    Multiply(learned_ ? *blobs_[0] : *bottom[1], top[0]->Diff(), bottom[0]->MutableDiff());
  }
}

LayerFacts Scale::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  // A learned scale with several axes is not one of channels.
  if (!learned_ || blobs_[0]->num_axes() > 1) return facts;
  Affine affine{axis_, shape_.channels, {}, nullptr};
  for (const auto& blob : blobs_) affine.sources.push_back(blob.get());
  affine.evaluate = AffineOf(affine.sources);
  facts.affine = std::move(affine);
  if (bias_index_ == 1 && param_propagate_down(0) && param_propagate_down(1)) {
    facts.channel_scale = ChannelScale{axis_, blobs_[0].get(), blobs_[1].get()};
  }
  return facts;
}

}  // namespace

void RegisterScaleLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.max_bottom = 2;
  traits.types = BuiltInTypes();
  traits.quantizes = [](const LayerParameter& layer) { return layer.bottom_size() == 1; };
  traits.in_place = true;
  traits.backward_reads = [](const LayerParameter& parameter) {
    const bool learned = parameter.bottom_size() == 1;
    return BackwardReads{{0, 1}, {}, true, false, learned};
  };
  traits.summary = "y = s x (+ b), s learned or the second bottom";
  registry.Add<ScaleLayer>("Scale", traits);
}

}  // namespace caffe

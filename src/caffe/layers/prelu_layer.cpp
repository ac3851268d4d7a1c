#include "caffe.pb.h"
#include "caffe/layer/channel_sums.hpp"
#include "caffe/layer/code_affine.hpp"
#include "caffe/layer/input_copy.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// y = x if x > 0, else a x, with a learned slope a per channel (axis 1), or one for all.
//   dE/dx = dE/dy if x > 0, else a dE/dy
//   dE/da += the sum over the channel of x dE/dy where x <= 0
// bottom 0, top 0: at least two axes, the same shape. In place allowed: a copy of the bottom is
// kept for the gradients.
// blobs: slopes [channels], or one value without axes if channel_shared.
// prelu_param: filler (constant 0.25), channel_shared (false).
// Types: float kinds; quant8 and quant16 forward (CodeSlopes), where y has a range of its own.
// Slopes are masters (float, double for double).
class PReLU : public CodedLayer {
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
  bool KeepsInput() const { return need_backward() && types().compute.is_float(); }
  bool shared_ = false;
  int64_t outer_ = 0, channels_ = 0, inner_ = 0;  // shared: one channel
  InputCopy input_;
  ChannelSums sums_;
  CodeSlopes codes_;  // of quantized types
  std::unique_ptr<Kernel> forward_rows_, forward_columns_, backward_rows_, backward_columns_;
  std::unique_ptr<Kernel> slope_parts_;
};

template <class Dtype, class MItype, class MOtype>
using PReLULayer = Layer<Dtype, MItype, MOtype, PReLU>;

void PReLU::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const PReLUParameter& parameter = layer_param().prelu_param();
  shared_ = parameter.channel_shared();
  CAFFE_CHECK(bottom[0]->num_axes() >= 2, Where(), ": needs a bottom of at least 2 axes; it has ",
              "shape ", bottom[0]->shape_string());
  FillerParameter filler;
  filler.set_type("constant");
  filler.set_value(0.25f);
  if (parameter.has_filler()) filler = parameter.filler();
  AddParameter(0, shared_ ? Shape{} : Shape{bottom[0]->shape(1)}, filler);
  input_.SetDevice(device());
  if (this->types().compute.is_quantized()) {
    codes_ = CodeSlopes(blobs_[0].get(), this->types().compute, device(), Where());
    UseCodes(&codes_);
    return;
  }
  const TypeTriple types{master_type(), this->types().in, master_type()};
  forward_rows_ = MakeKernel("neuron/prelu", "prelu_rows", types);
  forward_columns_ = MakeKernel("neuron/prelu", "prelu_columns", types);
  backward_rows_ = MakeKernel("neuron/prelu", "prelu_backward_rows", types);
  backward_columns_ = MakeKernel("neuron/prelu", "prelu_backward_columns", types);
  slope_parts_ = MakeKernel("neuron/prelu", "prelu_slope_parts", types);
  sums_ = ChannelSums(&workspace(), this->types(), master_type());
}

void PReLU::Reshape(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(bottom[0]->num_axes() >= 2, Where(), ": needs a bottom of at least 2 axes; it has ",
              "shape ", bottom[0]->shape_string());
  CAFFE_CHECK(shared_ || bottom[0]->shape(1) == blobs_[0]->count(), Where(), ": was made for ",
              blobs_[0]->count(), " channels, but the bottom has shape ",
              bottom[0]->shape_string());
  outer_ = bottom[0]->shape(0) * (shared_ ? bottom[0]->shape(1) : 1);
  channels_ = shared_ ? 1 : bottom[0]->shape(1);
  inner_ = bottom[0]->count(2);
  if (shared_ && inner_ == 1) {
    outer_ = bottom[0]->shape(0);
    inner_ = bottom[0]->shape(1);
  }
  if (types().compute.is_float()) sums_.Reshape(outer_, channels_, inner_, phase() == TRAIN);
  top[0]->ReshapeLike(*bottom[0]);
}

void PReLU::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (types().compute.is_quantized()) {
    codes_.Launch({outer_, channels_, inner_}, In(bottom, 0), Out(top, 0));
    return;
  }
  input_.Keep(*bottom[0], *top[0], KeepsInput());
  const KernelArgument x = bottom[0]->Data(), slope = blobs_[0]->Data(), y = top[0]->MutableData();
  if (inner_ == 1) {
    forward_columns_->Launch({outer_, channels_}, {outer_, channels_, x, slope, y});
  } else {
    const int64_t rows = outer_ * channels_;
    forward_rows_->Launch({rows, inner_}, {rows, inner_, channels_, x, slope, y});
  }
}

void PReLU::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                     const BlobVec& bottom) {
  if (types().compute.is_quantized()) return LayerBase::Backward(top, propagate_down, bottom);
  if (bottom[0]->count() == 0) return;
  const KernelArgument x = input_.Data(*bottom[0], *top[0]), y_diff = top[0]->Diff();
  // In place, the bottom's diff overwrites the top's, so the slopes' gradient is computed first.
  if (param_propagate_down(0)) {
    sums_.Launch(slope_parts_.get(), {x, y_diff});
    sums_.Finish(true, blobs_[0]->MutableDiff());
  }
  if (!propagate_down[0]) return;
  const KernelArgument slope = blobs_[0]->Data(), x_diff = bottom[0]->MutableDiff();
  if (inner_ == 1) {
    backward_columns_->Launch({outer_, channels_}, {outer_, channels_, x, slope, y_diff, x_diff});
  } else {
    const int64_t rows = outer_ * channels_;
    backward_rows_->Launch({rows, inner_}, {rows, inner_, channels_, x, slope, y_diff, x_diff});
  }
}

LayerFacts PReLU::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  facts.function = ElementFunction{ElementFunction::Kind::kPReLU};
  facts.slopes = blobs_[0].get();
  return facts;
}

}  // namespace

void RegisterPReLULayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.in_place = true;
  traits.types = BuiltInTypes();
  traits.backward_reads = Always({{0}, {}, true});
  traits.summary = "y = x if x > 0, else a learned slope times x";
  registry.Add<PReLULayer>("PReLU", traits);
}

}  // namespace caffe

#include "caffe/layers/prelu_layer.hpp"

#include "caffe.pb.h"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

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
  facts.pointwise = Activation{Activation::Kind::kPReLU};
  facts.slopes = blobs_[0].get();
  return facts;
}

void RegisterPReLULayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.in_place = true;
  traits.types = BuiltInTypes();
  traits.backward_reads = Always({{0}, {}, true});
  traits.summary = "y = x if x > 0, else a learned slope times x";
  registry.Add<PReLULayer>("PReLU", traits);
}

}  // namespace caffe

#include "caffe.pb.h"
#include "caffe/layer/channel_sums.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/place_blob.hpp"

namespace caffe {
namespace {

// y = s x / n with n = sqrt(sum of x^2 + eps), and a learned s for each channel (axis 1), or one
// for all (SSD; ParseNet, arXiv:1506.04579). The sum is over the channels of a pixel or, with
// across_spatial, over the item.
//   dE/dx = (s dE/dy - x d / n^2) / n with d = the sum of s x dE/dy over the same elements
//   dE/ds += the sum of x dE/dy / n over the elements of s
// bottom 0, top 0: at least two axes, the same shape. Not in place.
// blobs: s [channels], or one value without axes if channel_shared.
// norm_param: across_spatial (true), scale_filler (constant 1), channel_shared (true), eps (1e-10).
// Types: float kinds. s, sums and norms are masters (float, double for double).
class Normalize : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  int64_t norm_stride() const { return across_ ? 1 : inner_; }
  int64_t norm_step() const { return across_ ? 0 : 1; }
  int64_t slope_step() const { return shared_ ? 0 : 1; }

  bool across_ = true, shared_ = true;
  double eps_ = 0;
  int64_t outer_ = 0, channels_ = 0, inner_ = 0;
  std::shared_ptr<BlobBase> squares_, dots_;  // of items, or of pixels
  ChannelSums item_sums_, slope_sums_;
  std::unique_ptr<Kernel> item_squares_, squares_kernel_, forward_;
  std::unique_ptr<Kernel> item_dots_, dots_kernel_, backward_, slope_parts_;
};

template <class Dtype, class MItype, class MOtype>
using NormalizeLayer = Layer<Dtype, MItype, MOtype, Normalize>;

void Normalize::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const NormalizeParameter& parameter = layer_param().norm_param();
  CAFFE_CHECK(top[0] != bottom[0], Where(), ": cannot work in place; give blob ", bottom[0]->name(),
              " another name as top");
  CAFFE_CHECK(bottom[0]->num_axes() >= 2, Where(), ": needs a bottom of at least 2 axes; it has ",
              "shape ", bottom[0]->shape_string());
  across_ = parameter.across_spatial();
  shared_ = parameter.channel_shared();
  eps_ = parameter.eps();
  CAFFE_CHECK(eps_ >= 0, Where(), ": eps ", eps_, " must not be negative");
  FillerParameter filler;
  filler.set_type("constant");
  filler.set_value(1);
  if (parameter.has_scale_filler()) filler = parameter.scale_filler();
  AddParameter(0, shared_ ? Shape{} : Shape{bottom[0]->shape(1)}, filler);
  PlaceBlob(&squares_, master_type(), device(), {0}, name() + " squares");
  PlaceBlob(&dots_, master_type(), device(), {0}, name() + " dots");
  const TypeTriple types{master_type(), this->types().in, master_type()};
  item_squares_ = MakeKernel("blas/reduction", "reduction_sumsq");
  squares_kernel_ = MakeKernel("box/normalize", "normalize_squares", types);
  forward_ = MakeKernel("box/normalize", "normalize_forward", types);
  item_dots_ = MakeKernel("box/normalize", "normalize_dot_parts", types);
  dots_kernel_ = MakeKernel("box/normalize", "normalize_dots", types);
  backward_ = MakeKernel("box/normalize", "normalize_backward", types);
  slope_parts_ = MakeKernel("box/normalize", "normalize_slope_parts", types);
  item_sums_ = ChannelSums(&workspace(), this->types(), master_type());
  slope_sums_ = ChannelSums(&workspace(), this->types(), master_type());
}

void Normalize::Reshape(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(bottom[0]->num_axes() >= 2, Where(), ": needs a bottom of at least 2 axes; it has ",
              "shape ", bottom[0]->shape_string());
  outer_ = bottom[0]->shape(0);
  channels_ = bottom[0]->shape(1);
  inner_ = bottom[0]->count(2);
  CAFFE_CHECK(shared_ || channels_ == blobs_[0]->count(), Where(), ": was made for ",
              blobs_[0]->count(), " channels, but the bottom has shape ",
              bottom[0]->shape_string());
  squares_->Reshape({outer_ * (across_ ? 1 : inner_)});
  dots_->ReshapeLike(*squares_);
  if (across_) item_sums_.Reshape(1, outer_, channels_ * inner_, true);
  slope_sums_.Reshape(outer_, shared_ ? 1 : channels_, shared_ ? channels_ * inner_ : inner_,
                      phase() == TRAIN);
  top[0]->ReshapeLike(*bottom[0]);
}

void Normalize::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (bottom[0]->count() == 0) return;
  if (across_) {
    item_sums_.Launch(item_squares_.get(), {bottom[0]->Data(), 1.0});
    item_sums_.Finish(false, squares_->MutableData());
  } else {
    squares_kernel_->Launch(
        {outer_, inner_}, {outer_, channels_, inner_, bottom[0]->Data(), squares_->MutableData()});
  }
  const int64_t rows = outer_ * channels_;
  forward_->Launch({rows, inner_},
                   {rows, channels_, inner_, eps_, norm_stride(), norm_step(), slope_step(),
                    bottom[0]->Data(), squares_->Data(), blobs_[0]->Data(), top[0]->MutableData()});
}

void Normalize::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                         const BlobVec& bottom) {
  if (bottom[0]->count() == 0) return;
  const KernelArgument x = bottom[0]->Data(), slope = blobs_[0]->Data(), y_diff = top[0]->Diff();
  if (param_propagate_down(0)) {
    slope_sums_.Launch(slope_parts_.get(),
                       {inner_, eps_, norm_stride(), norm_step(), x, squares_->Data(), y_diff});
    slope_sums_.Finish(true, blobs_[0]->MutableDiff());
  }
  if (!propagate_down[0]) return;
  if (across_) {
    item_sums_.Launch(item_dots_.get(), {inner_, slope_step(), x, slope, y_diff});
    item_sums_.Finish(false, dots_->MutableData());
  } else {
    dots_kernel_->Launch({outer_, inner_}, {outer_, channels_, inner_, slope_step(), x, slope,
                                            y_diff, dots_->MutableData()});
  }
  const int64_t rows = outer_ * channels_;
  backward_->Launch({rows, inner_},
                    {rows, channels_, inner_, eps_, norm_stride(), norm_step(), slope_step(), x,
                     squares_->Data(), dots_->Data(), slope, y_diff, bottom[0]->MutableDiff()});
}

LayerFacts Normalize::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  return facts;
}

}  // namespace

void RegisterNormalizeLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.backward_reads = Always({{0}, {}});
  traits.summary = "y = s x / |x| over the channels of a pixel, or over an item (SSD)";
  registry.Add<NormalizeLayer>("Normalize", traits);
}

}  // namespace caffe

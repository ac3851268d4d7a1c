#include <cmath>

#include "caffe.pb.h"
#include "caffe/core/log.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/loss_base.hpp"
#include "caffe/layer/place_blob.hpp"

namespace caffe {
namespace {

// loss = -sum of w[label] log p[label] / divisor with p = softmax(x) along an axis.
//   dE/dx = dE/dloss w[label] (p - [c is the label]) / divisor, 0 where the label is ignored
// bottom 0 (x): [outer…, C, inner…]; bottom 1: outer * inner labels, always float, integers in
// [0, C) or ignore_label; others are an error (CheckData). top 0: no axes; top 1 (optional): p.
// -log p[label] is at most -log(FLT_MIN) = 87.3.
// softmax_param: axis (1). loss_param: ignore_label, normalization (VALID: the divisor is the
// number of labels that count), normalize, pre_fixed_normalizer. The divisor is at least 1.
// loss_param of SegNet: with weight_by_label_freqs, w are the C values of class_weighting; else 1.
// The divisor is still the number of labels, not the sum of their weights.
// SoftmaxWithLossOHEM (R-FCN) is the same layer with a top 2 (optional): the term of each label, of
// the shape of bottom 1; 0 for ignored ones. It is float in nets of every type, without a gradient.
// Types: float kinds.
class SoftmaxWithLoss : public LossBase {
 public:
  using LossBase::LossBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;

 private:
  BlobBase& Probabilities(const BlobVec& top) { return top.size() > 1 ? *top[1] : *probabilities_; }

  void SetUpClassWeights();
  // The arguments of a kernel for both passes, up to class_weighting.
  KernelArguments Arguments(KernelArgument values, KernelArgument labels);

  int64_t outer_ = 0, channels_ = 0, inner_ = 0;
  std::shared_ptr<BlobBase> probabilities_;
  std::shared_ptr<BlobBase> class_weights_;  // null: all are 1
  std::unique_ptr<Kernel> forward_rows_, forward_, forward_groups_, backward_rows_, backward_;
  std::unique_ptr<Kernel> losses_;  // of items, for top 2
};

template <class Dtype, class MItype, class MOtype>
using SoftmaxWithLossLayer = Layer<Dtype, MItype, MOtype, SoftmaxWithLoss>;

void SoftmaxWithLoss::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  LossBase::LayerSetUp(bottom, top);
  PlaceBlob(&probabilities_, types().out, device(), {0}, name() + " probabilities");
  SetUpClassWeights();
  forward_rows_ = MakeKernel("loss/softmax_loss", "softmax_loss_forward_rows");
  forward_ = MakeKernel("loss/softmax_loss", "softmax_loss_forward");
  forward_groups_ = nullptr;
  if (top.size() > 2) losses_ = MakeKernel("box/ohem", "ohem_losses");
  backward_rows_ = MakeKernel("loss/softmax_loss", "softmax_loss_backward_rows");
  backward_ = MakeKernel("loss/softmax_loss", "softmax_loss_backward");
}

void SoftmaxWithLoss::SetUpClassWeights() {
  const LossParameter& loss = layer_param().loss_param();
  if (!loss.weight_by_label_freqs()) {
    if (loss.class_weighting_size() > 0) {
      log::Warning(Where() + ": class_weighting is not used without weight_by_label_freqs: true");
    }
    return;
  }
  const int count = loss.class_weighting_size();
  CAFFE_CHECK(count > 0, Where(),
              ": weight_by_label_freqs needs class_weighting, a weight for each class");
  PlaceBlob(&class_weights_, kFloat, device(), {count}, name() + " class weights");
  std::vector<double> weights(count);
  for (int c = 0; c < count; ++c) {
    weights[c] = loss.class_weighting(c);
    CAFFE_CHECK(std::isfinite(weights[c]) && weights[c] >= 0, Where(),
                ": class_weighting of class ", c, " is ", weights[c], "; it must be 0 or more");
  }
  class_weights_->SetData(weights);
}

void SoftmaxWithLoss::Reshape(const BlobVec& bottom, const BlobVec& top) {
  LossBase::Reshape(bottom, top);
  const int axis = bottom[0]->CanonicalAxisIndex(layer_param().softmax_param().axis());
  outer_ = bottom[0]->count(0, axis);
  channels_ = bottom[0]->shape(axis);
  inner_ = bottom[0]->count(axis + 1);
  CAFFE_CHECK(outer_ * inner_ == bottom[1]->count(), Where(), ": scores of shape ",
              bottom[0]->shape_string(), " along axis ", axis, " need ", outer_ * inner_,
              " labels, but there are ", bottom[1]->count());
  CAFFE_CHECK(!class_weights_ || class_weights_->count() == channels_, Where(),
              ": class_weighting has ", class_weights_ ? class_weights_->count() : 0,
              " values, but axis ", axis, " of the scores has ", channels_, " classes");
  // A group of work items is not worth its waits for a few classes.
  if (device()->has_groups() && inner_ == 1 && channels_ > 64 && !forward_groups_) {
    forward_groups_ = MakeGroupKernel("loss/softmax_loss_groups", "softmax_loss_forward_groups");
  }
  Probabilities(top).ReshapeLike(*bottom[0]);
  if (top.size() > 2) top[2]->ReshapeLike(*bottom[1]);
  sum_.Reshape(outer_ * inner_);
  SetLabels(channels_, inner_, true);
}

KernelArguments SoftmaxWithLoss::Arguments(KernelArgument values, KernelArgument labels) {
  const LossParameter& loss = layer_param().loss_param();
  KernelArguments arguments{outer_, channels_};
  if (inner_ != 1) arguments.push_back(inner_);
  // A placeholder for missing weights; kernels do not read it.
  const bool weighted = class_weights_ != nullptr;
  arguments.append({loss.has_ignore_label(), loss.ignore_label(), weighted, values, labels,
                    weighted ? class_weights_->Data() : sum_.divisor().Data()});
  return arguments;
}

void SoftmaxWithLoss::Forward(const BlobVec& bottom, const BlobVec& top) {
  KernelArguments arguments = Arguments(bottom[0]->Data(), bottom[1]->Data());
  arguments.push_back(Probabilities(top).MutableData());
  arguments.push_back(sum_.terms().MutableData());
  if (forward_groups_ && inner_ == 1 && channels_ > 64) {
    forward_groups_->LaunchInGroups({{outer_, 1, 1}, {forward_groups_->group(), 1, 1}}, arguments);
  } else if (inner_ == 1) {
    forward_rows_->Launch(outer_, arguments);
  } else {
    forward_->Launch({outer_, inner_}, arguments);
  }
  if (top.size() > 2) {
    losses_->Launch(sum_.count(), {sum_.count(), sum_.terms().Data(), top[2]->MutableData()});
  }
  Finish(Divisor(outer_, inner_, LossParameter::VALID), top[0]);
}

void SoftmaxWithLoss::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                               const BlobVec& bottom) {
  CAFFE_CHECK(propagate_down.size() < 2 || !propagate_down[1], Where(),
              ": there is no gradient for labels");
  if (!propagate_down[0]) return;
  KernelArguments arguments = Arguments(Probabilities(top).Data(), bottom[1]->Data());
  arguments.append({top[0]->Diff(), sum_.divisor().Data(), bottom[0]->MutableDiff()});
  if (inner_ == 1) {
    backward_rows_->Launch({outer_, channels_}, arguments);
  } else {
    backward_->Launch({outer_ * channels_, inner_}, arguments);
  }
}

}  // namespace

void RegisterSoftmaxWithLossLayer(LayerRegistry& registry) {
  LayerTraits traits = LossBase::Traits();
  traits.max_top = 2;
  traits.backward_reads = Always({{1}, {1}});
  traits.summary = "-log softmax(x)[label], averaged";
  registry.Add<SoftmaxWithLossLayer>("SoftmaxWithLoss", traits);
  traits.max_top = 3;
  traits.float_tops = {2};
  traits.summary = "SoftmaxWithLoss, with the loss of each label as a top (R-FCN)";
  registry.Add<SoftmaxWithLossLayer>("SoftmaxWithLossOHEM", traits);
}

}  // namespace caffe

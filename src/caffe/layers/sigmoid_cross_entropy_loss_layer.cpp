#include "caffe/layers/sigmoid_cross_entropy_loss_layer.hpp"

#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

void SigmoidCrossEntropyLoss::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  LossBase::LayerSetUp(bottom, top);
  forward_ = MakeKernel("loss/sigmoid_cross_entropy", "sigmoid_cross_entropy_forward");
  backward_ = MakeKernel("loss/sigmoid_cross_entropy", "sigmoid_cross_entropy_backward");
}

void SigmoidCrossEntropyLoss::Reshape(const BlobVec& bottom, const BlobVec& top) {
  LossBase::Reshape(bottom, top);
  CheckEqualCounts(bottom);
  part_ = TermLength(bottom[0]->count());
  sum_.Reshape((bottom[0]->count() + part_ - 1) / part_);
}

void SigmoidCrossEntropyLoss::Forward(const BlobVec& bottom, const BlobVec& top) {
  const LossParameter& loss = layer_param().loss_param();
  forward_->Launch(sum_.count(), {sum_.count(), part_, bottom[0]->count(), loss.has_ignore_label(),
                                  loss.ignore_label(), bottom[0]->Data(), bottom[1]->Data(),
                                  sum_.terms().MutableData()});
  Finish(Divisor(bottom[0]->shape(0), bottom[0]->count(1), LossParameter::BATCH_SIZE), top[0]);
}

void SigmoidCrossEntropyLoss::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                                       const BlobVec& bottom) {
  CAFFE_CHECK(propagate_down.size() < 2 || !propagate_down[1], Where(),
              ": there is no gradient for targets");
  if (!propagate_down[0]) return;
  const LossParameter& loss = layer_param().loss_param();
  backward_->Launch(
      bottom[0]->count(),
      {bottom[0]->count(), loss.has_ignore_label(), loss.ignore_label(), bottom[0]->Data(),
       bottom[1]->Data(), top[0]->Diff(), sum_.divisor().Data(), bottom[0]->MutableDiff()});
}

void RegisterSigmoidCrossEntropyLossLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 2;
  traits.loss = true;
  traits.float_bottoms = {1};
  traits.no_gradient_bottoms = {1};
  traits.backward_reads = Always({{0, 1}, {}});
  traits.summary = "cross entropy of sigmoid(x) and targets in [0, 1], for each item";
  registry.Add<SigmoidCrossEntropyLossLayer>("SigmoidCrossEntropyLoss", traits);
}

}  // namespace caffe

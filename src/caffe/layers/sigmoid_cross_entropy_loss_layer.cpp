#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/loss_base.hpp"

namespace caffe {
namespace {

// loss = -sum of (t log p + (1 - t) log(1 - p)) / divisor with p = 1 / (1 + exp(-x)), computed as
// max(x, 0) - x t + log(1 + exp(-|x|)), which does not overflow.
//   dE/dx = dE/dloss (p - t) / divisor, 0 where the target is ignored
// bottom 0 (x), bottom 1 (t, always float, no gradient): [N, …] with the same number of elements;
// top 0: no axes.
// loss_param: ignore_label (compared with t truncated to an integer), normalization (BATCH_SIZE:
// the divisor is N), normalize, pre_fixed_normalizer. The divisor is at least 1.
// Types: float kinds.
class SigmoidCrossEntropyLoss : public LossBase {
 public:
  using LossBase::LossBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;

 private:
  int64_t part_ = 1;  // elements in a term
  std::unique_ptr<Kernel> forward_, backward_;
};

template <class Dtype, class MItype, class MOtype>
using SigmoidCrossEntropyLossLayer = Layer<Dtype, MItype, MOtype, SigmoidCrossEntropyLoss>;

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

}  // namespace

void RegisterSigmoidCrossEntropyLossLayer(LayerRegistry& registry) {
  LayerTraits traits = LossBase::Traits();
  traits.summary = "cross entropy of sigmoid(x) and targets in [0, 1], for each item";
  registry.Add<SigmoidCrossEntropyLossLayer>("SigmoidCrossEntropyLoss", traits);
}

}  // namespace caffe

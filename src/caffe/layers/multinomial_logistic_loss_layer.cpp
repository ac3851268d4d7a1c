#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/loss_base.hpp"

namespace caffe {
namespace {

// loss = -sum of log max(p[label], low) / N, where low is 10^-20 (half: 2^-14, so that the gradient
// can be stored).
//   dE/dp[label] = -dE/dloss / (N max(p[label], low)), 0 for the other classes
// p is expected to come from a Softmax; SoftmaxWithLoss computes both with a better gradient.
// bottom 0 (p): [N, …], all axes after the first are C classes; bottom 1: N labels, always float,
// integers in [0, C); others are an error (CheckData). top 0: no axes.
// loss_param: under normalization PRE_FIXED pre_fixed_normalizer replaces N; other fields are
// ignored.
// Types: float kinds.
class MultinomialLogisticLoss : public LossBase {
 public:
  using LossBase::LossBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;

 private:
  double Lowest() const;

  int64_t classes_ = 0;
  std::unique_ptr<Kernel> forward_, backward_;
};

template <class Dtype, class MItype, class MOtype>
using MultinomialLogisticLossLayer = Layer<Dtype, MItype, MOtype, MultinomialLogisticLoss>;

void MultinomialLogisticLoss::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  LossBase::LayerSetUp(bottom, top);
  WarnOfUnusedNormalization();
  forward_ = MakeKernel("loss/multinomial_logistic", "multinomial_logistic_forward");
  backward_ = MakeKernel("loss/multinomial_logistic", "multinomial_logistic_backward");
}

double MultinomialLogisticLoss::Lowest() const { return types().in == kHalf ? 0x1p-14 : 1e-20; }

void MultinomialLogisticLoss::Reshape(const BlobVec& bottom, const BlobVec& top) {
  LossBase::Reshape(bottom, top);
  classes_ = bottom[0]->count(1);
  CheckOneLabelPerItem(bottom);
  sum_.Reshape(bottom[0]->shape(0));
  SetLabels(classes_, 1, false);
}

void MultinomialLogisticLoss::Forward(const BlobVec& bottom, const BlobVec& top) {
  forward_->Launch(sum_.count(), {sum_.count(), classes_, Lowest(), bottom[0]->Data(),
                                  bottom[1]->Data(), sum_.terms().MutableData()});
  Finish(ItemDivisor(sum_.count()), top[0]);
}

void MultinomialLogisticLoss::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                                       const BlobVec& bottom) {
  CAFFE_CHECK(propagate_down.size() < 2 || !propagate_down[1], Where(),
              ": there is no gradient for labels");
  if (!propagate_down[0]) return;
  backward_->Launch(
      {sum_.count(), classes_},
      {sum_.count(), classes_, Lowest(), 1 / ItemDivisor(sum_.count()), bottom[0]->Data(),
       bottom[1]->Data(), top[0]->Diff(), bottom[0]->MutableDiff()});
}

}  // namespace

void RegisterMultinomialLogisticLossLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 2;
  traits.loss = true;
  traits.float_bottoms = {1};
  traits.no_gradient_bottoms = {1};
  traits.backward_reads = Always({{0, 1}, {}});
  traits.summary = "-log p[label], averaged; p are probabilities";
  registry.Add<MultinomialLogisticLossLayer>("MultinomialLogisticLoss", traits);
}

}  // namespace caffe

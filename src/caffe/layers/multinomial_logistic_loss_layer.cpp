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
class MultinomialLogisticLoss : public LabelLoss {
 public:
  using LabelLoss::LabelLoss;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override {
    LabelLoss::LayerSetUp(bottom, top);
    SetKernels("multinomial_logistic", types().in == kHalf ? 0x1p-14 : 1e-20);
  }
};

template <class Dtype, class MItype, class MOtype>
using MultinomialLogisticLossLayer = Layer<Dtype, MItype, MOtype, MultinomialLogisticLoss>;

}  // namespace

void RegisterMultinomialLogisticLossLayer(LayerRegistry& registry) {
  LayerTraits traits = LossBase::Traits();
  traits.summary = "-log p[label], averaged; p are probabilities";
  registry.Add<MultinomialLogisticLossLayer>("MultinomialLogisticLoss", traits);
}

}  // namespace caffe

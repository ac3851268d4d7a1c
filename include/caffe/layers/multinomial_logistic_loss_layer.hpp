#pragma once

#include "caffe/layer/loss_base.hpp"

namespace caffe {

class LayerRegistry;

// loss = -sum of log max(p[label], low) / N, where low is 10^-20 (half: 2^-14, so that the gradient can
// be stored).
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

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class MultinomialLogisticLossLayer final
    : public Layer<Dtype, MItype, MOtype, MultinomialLogisticLoss> {
  using Layer<Dtype, MItype, MOtype, MultinomialLogisticLoss>::Layer;
};

}  // namespace caffe

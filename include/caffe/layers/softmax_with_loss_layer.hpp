#pragma once

#include "caffe/layer/loss_base.hpp"

namespace caffe {

class LayerRegistry;

// loss = -sum of log p[label] / divisor with p = softmax(x) along an axis.
//   dE/dx = dE/dloss (p - [c is the label]) / divisor, 0 where the label is ignored
// bottom 0 (x): [outer…, C, inner…]; bottom 1: outer * inner labels, always float, in [0, C); a
// label outside gives a loss that is not a number. top 0: no axes; top 1 (optional): p.
// A single term is at most -log(FLT_MIN) = 87.3.
// softmax_param: axis (1). loss_param: ignore_label, normalization (VALID: the divisor is the number
// of labels that count), normalize. The divisor is at least 1.
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

  int64_t outer_ = 0, channels_ = 0, inner_ = 0;
  std::shared_ptr<BlobBase> probabilities_;
  std::unique_ptr<Kernel> forward_rows_, forward_, backward_rows_, backward_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class SoftmaxWithLossLayer final : public Layer<Dtype, MItype, MOtype, SoftmaxWithLoss> {
  using Layer<Dtype, MItype, MOtype, SoftmaxWithLoss>::Layer;
};

}  // namespace caffe

#pragma once

#include "caffe/layer/loss_base.hpp"

namespace caffe {

class LayerRegistry;

// loss = -sum of (t log p + (1 - t) log(1 - p)) / divisor with p = 1 / (1 + exp(-x)), computed as
// max(x, 0) - x t + log(1 + exp(-|x|)), which does not overflow.
//   dE/dx = dE/dloss (p - t) / divisor, 0 where the target is ignored
// bottom 0 (x), bottom 1 (t, always float, no gradient): [N, …] with the same number of elements;
// top 0: no axes.
// loss_param: ignore_label (compared with t truncated to an integer), normalization (BATCH_SIZE: the
// divisor is N), normalize, pre_fixed_normalizer. The divisor is at least 1.
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

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class SigmoidCrossEntropyLossLayer final
    : public Layer<Dtype, MItype, MOtype, SigmoidCrossEntropyLoss> {
  using Layer<Dtype, MItype, MOtype, SigmoidCrossEntropyLoss>::Layer;
};

}  // namespace caffe

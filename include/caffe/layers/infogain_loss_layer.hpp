#pragma once

#include "caffe/layer/loss_base.hpp"

namespace caffe {

class LayerRegistry;

// loss = -sum over items and classes k of H[label, k] log max(p_k, 10^-20) / divisor with p =
// softmax(x) along an axis. With H the identity this is SoftmaxWithLoss.
//   dE/dx_k = dE/dloss (p_k R[label] - H[label, k]) / divisor with R the row sums of H; 0 where the
//   label is ignored
// bottom 0 (x): [outer…, C, inner…]; bottom 1: outer * inner labels, integers in [0, C) or
// ignore_label; others are an error (CheckData); bottom 2 (optional): H, C * C elements. Bottoms 1 and 2
// are always float and have no gradient. top 0: no axes; top 1 (optional): p.
// infogain_loss_param: source (a file with a BlobProto, if there is no bottom 2), axis (1).
// loss_param: ignore_label, normalization (VALID: the divisor is the number of labels that count),
// pre_fixed_normalizer; normalize is an error, as in BVLC's Caffe. The divisor is at least 1.
// Types: float kinds.
class InfogainLoss : public LossBase {
 public:
  using LossBase::LossBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;

 private:
  BlobBase& Probabilities(const BlobVec& top) { return top.size() > 1 ? *top[1] : *probabilities_; }
  const BlobBase& Matrix(const BlobVec& bottom) {
    return bottom.size() > 2 ? *bottom[2] : *matrix_;
  }

  int64_t outer_ = 0, channels_ = 0, inner_ = 0;
  std::shared_ptr<BlobBase> probabilities_;
  std::shared_ptr<BlobBase> row_sums_;  // of H, for each item
  std::shared_ptr<BlobBase> matrix_;    // from the file
  std::unique_ptr<Kernel> forward_, backward_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class InfogainLossLayer final : public Layer<Dtype, MItype, MOtype, InfogainLoss> {
  using Layer<Dtype, MItype, MOtype, InfogainLoss>::Layer;
};

}  // namespace caffe

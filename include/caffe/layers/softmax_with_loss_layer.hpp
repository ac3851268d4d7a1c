#pragma once

#include "caffe/layer/loss_base.hpp"

namespace caffe {

class LayerRegistry;

// loss = -sum of w[label] log p[label] / divisor with p = softmax(x) along an axis.
//   dE/dx = dE/dloss w[label] (p - [c is the label]) / divisor, 0 where the label is ignored
// bottom 0 (x): [outer…, C, inner…]; bottom 1: outer * inner labels, always float, integers in
// [0, C) or ignore_label; others are an error (CheckData). top 0: no axes; top 1 (optional): p.
// -log p[label] is at most -log(FLT_MIN) = 87.3.
// softmax_param: axis (1). loss_param: ignore_label, normalization (VALID: the divisor is the
// number of labels that count), normalize, pre_fixed_normalizer. The divisor is at least 1.
// loss_param of SegNet: with weight_by_label_freqs, w are the C values of class_weighting; else 1.
// The divisor is still the number of labels, not the sum of their weights.
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
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class SoftmaxWithLossLayer final : public Layer<Dtype, MItype, MOtype, SoftmaxWithLoss> {
  using Layer<Dtype, MItype, MOtype, SoftmaxWithLoss>::Layer;
};

}  // namespace caffe

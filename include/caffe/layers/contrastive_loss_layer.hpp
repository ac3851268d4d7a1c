#pragma once

#include "caffe/layer/channel_sums.hpp"
#include "caffe/layer/loss_base.hpp"

namespace caffe {

class LayerRegistry;

// loss = sum over N pairs / (2 N) of
//   d^2               for similar ones (y is not 0),
//   max(m - d, 0)^2   for the others; legacy_version: max(m - d^2, 0)
// with d the Euclidean distance of a and b and the margin m: Hadsell, Chopra, LeCun: Dimensionality
// Reduction by Learning an Invariant Mapping, CVPR 2006, equation 4.
//   dE/da = dE/dloss s (a - b) / N,  dE/db = -dE/da, where s is 1 for similar pairs; for the others
//   0 beyond the margin, else -(m - d) / (d + 10^-4), legacy_version: -1
// bottom 0 (a), bottom 1 (b): [N, …] with the same number of elements; bottom 2 (y): N numbers, always
// float, truncated to integers, no gradient; one that is not finite is an error (CheckData). top 0: no
// axes.
// contrastive_loss_param: margin (1), legacy_version (false). loss_param: under normalization
// PRE_FIXED, pre_fixed_normalizer stands for N; nothing else is read.
// Types: float kinds.
class ContrastiveLoss : public LossBase {
 public:
  using LossBase::LossBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  void CheckData() override;

 private:
  ChannelSums sums_;
  std::shared_ptr<BlobBase> squares_;  // d^2 of each pair
  std::unique_ptr<Kernel> distances_, terms_, backward_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class ContrastiveLossLayer final : public Layer<Dtype, MItype, MOtype, ContrastiveLoss> {
  using Layer<Dtype, MItype, MOtype, ContrastiveLoss>::Layer;
};

}  // namespace caffe

#pragma once

#include "caffe/layer/loss_base.hpp"

namespace caffe {

class LayerRegistry;

// One of the layers that compute a MOE layer: losses of the gate, averaged over the N items.
//   load balance: w E / K * sum over e of u[e] * (mean over n of p[n, e])   (w for even use; Switch
//     Transformers, Fedus et al. 2021, eq. 4). The usage u counts as a constant, so that
//     dE/dp[n, e] = w E u[e] / (K N), also for unselected experts
//   router z: w * mean over n of log(sum over e of exp(z[n, e]))^2          (ST-MoE, Zoph et al. 2022)
// bottom 0: the probabilities p [N, E]; bottom 1: observed usage u [N, E] of MOERoute; bottom 2:
// the inputs z of the gate's softmax [N, E], if z_loss_weight is not 0.
// top 0: the sum of both.
// moe_param: select_experts, load_balance_loss_weight, z_loss_weight.
// Types: float kinds.
class MOELoss : public LossBase {
 public:
  using LossBase::LossBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;

 private:
  int64_t items_ = 0, experts_ = 0;
  double balance_ = 0, z_weight_ = 0;  // balance_: the weight times E / K
  std::unique_ptr<Kernel> forward_, p_diff_, z_diff_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class MOELossLayer final : public Layer<Dtype, MItype, MOtype, MOELoss> {
  using Layer<Dtype, MItype, MOtype, MOELoss>::Layer;
};

}  // namespace caffe

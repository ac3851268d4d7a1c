#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/loss_base.hpp"

namespace caffe {
namespace {

// One of the layers that compute a MOE layer: losses of the gate, averaged over the N items.
//   load balance: w E / K * sum over e of u[e] * (mean over n of p[n, e])   (w for even use; Switch
//     Transformers, Fedus et al. 2021, eq. 4). The usage u counts as a constant, so that
//     dE/dp[n, e] = w E u[e] / (K N), also for unselected experts
//   router z: w * mean over n of log(sum over e of exp(z[n, e]))^2     (ST-MoE, Zoph et al. 2022)
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

template <class Dtype, class MItype, class MOtype>
using MOELossLayer = Layer<Dtype, MItype, MOtype, MOELoss>;

void MOELoss::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  LossBase::LayerSetUp(bottom, top);
  const auto make = [&](const char* kernel) { return MakeKernel("moe/loss", kernel); };
  forward_ = make("moe_loss_forward");
  p_diff_ = make("moe_loss_p_diff");
  z_diff_ = make("moe_loss_z_diff");
}

void MOELoss::Reshape(const BlobVec& bottom, const BlobVec& top) {
  const MOEParameter& parameter = layer_param().moe_param();
  LossBase::Reshape(bottom, top);
  CheckEqualCounts(bottom);
  CAFFE_CHECK(bottom[0]->num_axes() >= 2, Where(), ": needs probabilities of shape [N, E]; blob ",
              bottom[0]->name(), " has shape ", bottom[0]->shape_string());
  items_ = bottom[0]->shape(0);
  experts_ = bottom[0]->count(1);
  z_weight_ = parameter.z_loss_weight();
  CAFFE_CHECK(z_weight_ == 0 || (bottom.size() == 3 && bottom[2]->count() == bottom[0]->count()),
              Where(), ": z_loss_weight needs a third bottom, the inputs of the gate's softmax");
  const auto select =
      static_cast<double>(parameter.has_select_experts() ? parameter.select_experts() : experts_);
  CAFFE_CHECK(select >= 1, Where(), ": select_experts ", select, " is less than 1");
  balance_ = parameter.load_balance_loss_weight() * static_cast<double>(experts_) / select;
  sum_.Reshape(items_);
}

void MOELoss::Forward(const BlobVec& bottom, const BlobVec& top) {
  const BlobBase& z = *bottom[z_weight_ != 0 ? 2 : 0];
  forward_->Launch(items_, {items_, experts_, balance_, z_weight_, bottom[0]->Data(),
                            bottom[1]->Data(), z.Data(), sum_.terms().MutableData()});
  Finish(static_cast<double>(items_), top[0]);
}

void MOELoss::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                       const BlobVec& bottom) {
  const double scale = 1 / static_cast<double>(items_);
  const int64_t count = bottom[0]->count();
  if (propagate_down[0]) {
    p_diff_->Launch(count, {count, balance_, scale, bottom[1]->Data(), top[0]->Diff(),
                            bottom[0]->MutableDiff()});
  }
  if (bottom.size() == 3 && propagate_down[2]) {
    const BlobBase& z = *bottom[2];
    z_diff_->Launch(items_, {items_, experts_, z_weight_, scale, z.Data(), top[0]->Diff(),
                             bottom[2]->MutableDiff()});
  }
}

}  // namespace

void RegisterMOELossLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = 2;
  traits.max_bottom = 3;
  traits.loss = true;
  traits.no_gradient_bottoms = {1};
  traits.backward_reads = [](const LayerParameter& layer) {
    const bool z = layer.moe_param().z_loss_weight() != 0;
    return BackwardReads{z ? std::vector<int>{1, 2} : std::vector<int>{1}, {}};
  };
  traits.summary = "a part of MOE: losses of the gate, for even use and small inputs";
  registry.Add<MOELossLayer>("MOELoss", traits);
}

}  // namespace caffe

#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/loss_base.hpp"

namespace caffe {
namespace {

// loss = sum of max(0, 1 - s x) (L2: its square) / N, where s is 1 at the class of the item's label
// and -1 at the other classes.
//   dE/dx = dE/dloss -s / N where 1 - s x > 0, else 0; L2: that times 2 (1 - s x)
// bottom 0 (x): [N, …], all axes after the first are C classes; bottom 1: N labels, always float,
// integers in [0, C); others are an error (CheckData). top 0: no axes.
// hinge_loss_param: norm (L1). loss_param: under normalization PRE_FIXED, pre_fixed_normalizer
// replaces N; no other field is read.
// Types: float kinds.
class HingeLoss : public LossBase {
 public:
  using LossBase::LossBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;

 private:
  int64_t classes_ = 0;
  std::unique_ptr<Kernel> forward_, backward_;
};

template <class Dtype, class MItype, class MOtype>
using HingeLossLayer = Layer<Dtype, MItype, MOtype, HingeLoss>;

void HingeLoss::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  LossBase::LayerSetUp(bottom, top);
  WarnOfUnusedNormalization();
  forward_ = MakeKernel("loss/hinge", "hinge_forward");
  backward_ = MakeKernel("loss/hinge", "hinge_backward");
}

void HingeLoss::Reshape(const BlobVec& bottom, const BlobVec& top) {
  LossBase::Reshape(bottom, top);
  classes_ = bottom[0]->count(1);
  CheckOneLabelPerItem(bottom);
  sum_.Reshape(bottom[0]->shape(0));
  SetLabels(classes_, 1, false);
}

void HingeLoss::Forward(const BlobVec& bottom, const BlobVec& top) {
  const bool squared = layer_param().hinge_loss_param().norm() == HingeLossParameter::L2;
  forward_->Launch(sum_.count(), {sum_.count(), classes_, squared, bottom[0]->Data(),
                                  bottom[1]->Data(), sum_.terms().MutableData()});
  Finish(ItemDivisor(sum_.count()), top[0]);
}

void HingeLoss::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                         const BlobVec& bottom) {
  CAFFE_CHECK(propagate_down.size() < 2 || !propagate_down[1], Where(),
              ": there is no gradient for labels");
  if (!propagate_down[0]) return;
  const bool squared = layer_param().hinge_loss_param().norm() == HingeLossParameter::L2;
  backward_->Launch(
      {sum_.count(), classes_},
      {sum_.count(), classes_, squared, 1 / ItemDivisor(sum_.count()), bottom[0]->Data(),
       bottom[1]->Data(), top[0]->Diff(), bottom[0]->MutableDiff()});
}

}  // namespace

void RegisterHingeLossLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 2;
  traits.loss = true;
  traits.float_bottoms = {1};
  traits.no_gradient_bottoms = {1};
  traits.backward_reads = Always({{0, 1}, {}});
  traits.summary = "one-versus-all hinge: sum of max(0, 1 - s x), or its square, / N";
  registry.Add<HingeLossLayer>("HingeLoss", traits);
}

}  // namespace caffe

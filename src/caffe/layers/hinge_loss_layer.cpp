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
class HingeLoss : public LabelLoss {
 public:
  using LabelLoss::LabelLoss;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override {
    LabelLoss::LayerSetUp(bottom, top);
    const bool squared = layer_param().hinge_loss_param().norm() == HingeLossParameter::L2;
    SetKernels("hinge", squared);
  }
};

template <class Dtype, class MItype, class MOtype>
using HingeLossLayer = Layer<Dtype, MItype, MOtype, HingeLoss>;

}  // namespace

void RegisterHingeLossLayer(LayerRegistry& registry) {
  LayerTraits traits = LossBase::Traits();
  traits.summary = "one-versus-all hinge: sum of max(0, 1 - s x), or its square, / N";
  registry.Add<HingeLossLayer>("HingeLoss", traits);
}

}  // namespace caffe

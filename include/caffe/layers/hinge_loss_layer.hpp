#pragma once

#include "caffe/layer/loss_base.hpp"

namespace caffe {

class LayerRegistry;

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

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class HingeLossLayer final : public Layer<Dtype, MItype, MOtype, HingeLoss> {
  using Layer<Dtype, MItype, MOtype, HingeLoss>::Layer;
};

}  // namespace caffe

#pragma once

#include "caffe/layer/loss_base.hpp"

namespace caffe {

class LayerRegistry;

// loss = sum of v f(u (a - b)) / N with f(d) = (sigma d)^2 / 2 where |d| < 1 / sigma^2, else
// |d| - 1 / (2 sigma^2): Girshick: Fast R-CNN, ICCV 2015, equation 3; sigma as in its code.
//   dE/da = dE/dloss v u f'(u (a - b)) / N,  dE/db = -dE/da
// bottom 0 (a), bottom 1 (b): [N, …]; bottom 2 (u, optional): inside weights; bottom 3 (v,
// optional): outside weights; all with the same number of elements. u and v are always float and
// have no gradient.
// top 0: no axes.
// smooth_l1_loss_param: sigma (1). loss_param: under normalization PRE_FIXED, pre_fixed_normalizer
// replaces N; no other field is read.
// Types: float kinds.
class SmoothL1Loss : public LossBase {
 public:
  using LossBase::LossBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;

 private:
  // The arguments of both kernels after the first ones.
  KernelArguments Arguments(const BlobVec& bottom) const;

  int64_t part_ = 1;  // elements in a term
  std::unique_ptr<Kernel> forward_, backward_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class SmoothL1LossLayer final : public Layer<Dtype, MItype, MOtype, SmoothL1Loss> {
  using Layer<Dtype, MItype, MOtype, SmoothL1Loss>::Layer;
};

}  // namespace caffe

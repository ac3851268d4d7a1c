#pragma once

#include "caffe/layer/loss_base.hpp"

namespace caffe {

class LayerRegistry;

// loss = sum of (a - b)^2 / (2 N) over all elements of N items.
//   dE/da = dE/dloss (a - b) / N,  dE/db = -dE/da
// bottom 0 (a), bottom 1 (b): [N, …] with the same number of elements; top 0: no axes.
// loss_param: under normalization PRE_FIXED pre_fixed_normalizer replaces N; other fields are
// ignored.
// Types: float kinds.
class EuclideanLoss : public LossBase {
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
class EuclideanLossLayer final : public Layer<Dtype, MItype, MOtype, EuclideanLoss> {
  using Layer<Dtype, MItype, MOtype, EuclideanLoss>::Layer;
};

}  // namespace caffe

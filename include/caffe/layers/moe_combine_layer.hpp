#pragma once

#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// One of the layers that compute a MOE layer, see MOERoute: the weighted sums of the experts' rows.
//   y[n] = sum over k of weights[n, k] x[slots[n, k]], without the k whose slot is -1
//   dE/dx[r] = weights[rows[r]] dE/dy[rows[r] / K];  dE/dweights[n, k] = <dE/dy[n], x[slots[n, k]]>
// bottom 0: x [rows, …]; bottom 1: weights [N, K]; bottom 2: slots [N, K]; bottom 3: rows. Slots and
// rows are always float.
// top 0: [N, …]. Not in place. Rows that no item uses are not read.
// Types: float kinds.
class MOECombine : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  int64_t items_ = 0, columns_ = 0, rows_ = 0, select_ = 0, lanes_ = 1;
  std::shared_ptr<BlobBase> parts_;  // of the gradients of the weights
  std::unique_ptr<Kernel> forward_, backward_, weight_parts_, weight_sums_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class MOECombineLayer final : public Layer<Dtype, MItype, MOtype, MOECombine> {
  using Layer<Dtype, MItype, MOtype, MOECombine>::Layer;
};

}  // namespace caffe

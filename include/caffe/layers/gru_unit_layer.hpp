#pragma once

#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// One step of GRU (Cho et al. 2014, arXiv 1406.1078), in the variant that multiplies by r after the
// product with the weights:
//   r = sigmoid(a_r + b_r), z = sigmoid(a_z + b_z), n = tanh(a_n + r b_n)
//   h = (1 - z) n + z cont h_before
// where a = bottom 1 and b = cont bottom 3.
// bottom 0: h_before [1, N, H]; bottom 1: gates [1, N, 3H], the parts r, z, n; bottom 2: cont [1, N];
// bottom 3: [1, N, 3H]. top 0: h [1, N, H]. Not in place.
// No gradient of cont. Where cont is 0, h_before and bottom 3 may be anything.
// Types: float kinds; cont is float.
class GRUUnit : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  int64_t rows_ = 0, columns_ = 0;  // N, H
  std::unique_ptr<Kernel> forward_, backward_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class GRUUnitLayer final : public Layer<Dtype, MItype, MOtype, GRUUnit> {
  using Layer<Dtype, MItype, MOtype, GRUUnit>::Layer;
};

}  // namespace caffe

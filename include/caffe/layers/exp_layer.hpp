#pragma once

#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// y = base^(shift + scale x), computed as outer e^(inner x) with inner = scale ln(base) and outer =
// base^shift.
//   dE/dx = inner y dE/dy
// bottom 0, top 0: any shape, the same. In place allowed.
// exp_param: base (-1, that is e; else positive), scale (1), shift (0).
// Types: float kinds. A base without a finite logarithm is an error.
class Exp : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;

 private:
  double inner_ = 1, outer_ = 1;
  std::unique_ptr<Kernel> forward_, backward_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class ExpLayer final : public Layer<Dtype, MItype, MOtype, Exp> {
  using Layer<Dtype, MItype, MOtype, Exp>::Layer;
};

}  // namespace caffe

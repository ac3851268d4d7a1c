#pragma once

#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// y = |x|.
//   dE/dx = sign(x) dE/dy, 0 where x is 0
// bottom 0, top 0: any shape, the same. Not in place: the signs would be lost.
// Types: float kinds.
class AbsVal : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;

 private:
  std::unique_ptr<Kernel> forward_, backward_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class AbsValLayer final : public Layer<Dtype, MItype, MOtype, AbsVal> {
  using Layer<Dtype, MItype, MOtype, AbsVal>::Layer;
};

}  // namespace caffe

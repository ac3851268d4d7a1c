#pragma once

#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// y = tanh(x).
//   dE/dx = (1 - y^2) dE/dy
// bottom 0, top 0: any shape, the same. In place allowed.
// tanh_param: engine (read, and of no meaning here).
// Types: float kinds.
class TanH : public LayerBase {
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
class TanHLayer final : public Layer<Dtype, MItype, MOtype, TanH> {
  using Layer<Dtype, MItype, MOtype, TanH>::Layer;
};

}  // namespace caffe

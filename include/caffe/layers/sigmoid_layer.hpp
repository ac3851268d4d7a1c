#pragma once

#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// y = 1 / (1 + exp(-x)), between 0 and 1 for every x.
//   dE/dx = dE/dy * y * (1 - y)
// bottom 0, top 0: any shape, the same. In place allowed (the gradient needs y only).
// sigmoid_param: engine, a hint without effect.
// Types: float kinds.
class Sigmoid : public LayerBase {
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
class SigmoidLayer final : public Layer<Dtype, MItype, MOtype, Sigmoid> {
  using Layer<Dtype, MItype, MOtype, Sigmoid>::Layer;
};

}  // namespace caffe

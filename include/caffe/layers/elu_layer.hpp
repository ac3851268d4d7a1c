#pragma once

#include "caffe/layer/input_copy.hpp"
#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// y = x if x > 0, else alpha (e^x - 1).
//   dE/dx = dE/dy if x > 0, else (y + alpha) dE/dy
// bottom 0, top 0: any shape, the same. In place allowed: for alpha >= 0 the sign of y is that of
// x, for a negative alpha a copy of the bottom is kept for the gradient.
// elu_param: alpha (1).
// Types: float kinds.
class ELU : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;

 private:
  double alpha_ = 1;
  InputCopy input_;
  std::unique_ptr<Kernel> forward_, backward_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class ELULayer final : public Layer<Dtype, MItype, MOtype, ELU> {
  using Layer<Dtype, MItype, MOtype, ELU>::Layer;
};

}  // namespace caffe

#pragma once

#include "caffe/layer/input_copy.hpp"
#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// y = x if x > 0, else negative_slope * x; NaN is propagated.
//   dE/dx = dE/dy if x > 0, else negative_slope * dE/dy
// bottom 0, top 0: any shape, the same. In place allowed: the sign of y is that of x for slopes
// >= 0; for a negative slope the layer keeps a copy of x.
// relu_param: negative_slope (0).
// Types: float kinds; quant8 and quant16 forward, where y has a range of its own.
class ReLU : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  LayerArrays Arrays(const BlobVec& bottom, const BlobVec& top) override {
    return {input_.Arrays(*bottom[0], *top[0], KeepsInput()), {}};
  }
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;
  float negative_slope() const { return slope_; }

 private:
  // Whether Backward reads the bottom's data.
  bool KeepsInput() const { return need_backward() && slope_ < 0; }
  float slope_ = 0;
  InputCopy input_;  // kept for negative slopes
  std::unique_ptr<Kernel> forward_, backward_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class ReLULayer final : public Layer<Dtype, MItype, MOtype, ReLU> {
  using Layer<Dtype, MItype, MOtype, ReLU>::Layer;
};

}  // namespace caffe

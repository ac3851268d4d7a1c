#pragma once

#include "caffe/layer/input_copy.hpp"
#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// y = u^power, u = shift + scale x; the constant shift^power (1 for power 0) if power or scale is 0.
//   dE/dx = power scale u^(power - 1) dE/dy
// which is BVLC's power scale y / u wherever that is finite: at u = 0 BVLC divides 0 by 0.
// bottom 0, top 0: any shape, the same. In place allowed: a copy of the bottom is kept for the
// gradient where it depends on it (neither power 0 or 1 nor scale 0).
// power_param: power (1), scale (1), shift (0).
// Types: float kinds. Negative u with a power that is no integer gives NaN.
class Power : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;

 private:
  bool GradientNeedsInput() const { return power_ != 0 && power_ != 1 && scale_ != 0; }

  double power_ = 1, scale_ = 1, shift_ = 0;
  InputCopy input_;
  std::unique_ptr<Kernel> forward_, backward_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class PowerLayer final : public Layer<Dtype, MItype, MOtype, Power> {
  using Layer<Dtype, MItype, MOtype, Power>::Layer;
};

}  // namespace caffe

#pragma once

#include <memory>
#include <vector>

#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// Two or more bottoms, element by element.
//   SUM:  y = sum of coeff_i x_i.      dE/dx_i = coeff_i dE/dy
//   PROD: y = product of x_i.          dE/dx_i = dE/dy times the product of the others, or, without
//                                      stable_prod_grad, dE/dy y / x_i: NaN where x_i is 0
//   MAX:  y = the largest x_i.         dE/dx_i = dE/dy where x_i was chosen, else 0; of equal ones
//                                      bottom 1 is chosen before bottom 0, else the earlier one
// bottoms, top 0: the same shape, which may be any. Not in place.
// eltwise_param: operation (SUM), coeff (1 each; as many as bottoms or none, not for PROD, ignored
//   for MAX), stable_prod_grad (true).
// Types: float kinds; quant8 and quant16 forward, where y has a range of its own. With v_i = code of
// x_i - its zero point, the code of y - its zero point is
//   SUM:  round(sum of v_i m_i / 2^n), m_i / 2^n being coeff_i s_i / s_y with one n (CommonShift)
//   PROD: round(product of v_i times that of s_i / s_y), for up to 3 bottoms
//   MAX:  the largest round(v_i s_i / s_y)
// each with one rounding, half away from zero.
class Eltwise : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  LayerArrays Arrays(const BlobVec& bottom, const BlobVec& top) override {
    if (!mask_) return {};
    return {{mask_.get()}, {}};
  }
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  enum class Operation { kProduct, kSum, kMax };
  // y = the sum of coeffs * inputs, or the product of inputs (no coeffs), in launches of up to four
  // inputs.
  void Combine(std::vector<KernelArgument> inputs, std::vector<double> coeffs, KernelArgument y);
  // The forward pass in quantized types.
  void CombineCodes(const BlobVec& bottom, const BlobVec& top);
  // Bytes of the sums of more than two quantized bottoms.
  int64_t SumBytes() const { return 8 * count_; }

  Operation operation_ = Operation::kSum;
  bool stable_ = true;
  int64_t count_ = 0;
  std::vector<double> coeffs_;
  std::shared_ptr<BlobBase> mask_;  // i32: the index of the chosen bottom
  std::unique_ptr<Kernel> combine_, sum_of_two_, more_, finish_, backward_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class EltwiseLayer final : public Layer<Dtype, MItype, MOtype, Eltwise> {
  using Layer<Dtype, MItype, MOtype, Eltwise>::Layer;
};

}  // namespace caffe

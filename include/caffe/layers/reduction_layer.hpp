#pragma once

#include "caffe/layer/channel_sums.hpp"
#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// y = coeff times the sum over all axes from `axis` on of
//   SUM: x    ASUM: |x|    SUMSQ: x^2    MEAN: x / count, count being that of the summed elements
//   dE/dx = coeff dE/dy times 1, sign(x) (0 where x is 0), 2 x, 1 / count
// Sums are taken in float (double for double), in an order that depends on shape and device only.
// bottom 0: any shape with at least one axis; top 0: the axes before `axis`, none for axis 0.
// reduction_param: operation (SUM), axis (0, from the end if negative), coeff (1).
// Types: float kinds.
class Reduction : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  // The factor of each element of the sum.
  double Factor() const;

  bool mean_ = false, reads_bottom_ = false;
  int64_t rows_ = 0, columns_ = 0;  // the bottom as a matrix, for the gradient
  int64_t y_stride_ = 0;  // 1 if each row has its own element of the top, 0 if all share one
  int64_t summed_ = 0;    // elements of one sum
  double coeff_ = 1;
  double derivative_ = 1;  // factor of the derivative: 2 for SUMSQ
  ChannelSums sums_;
  std::unique_ptr<Kernel> forward_, backward_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class ReductionLayer final : public Layer<Dtype, MItype, MOtype, Reduction> {
  using Layer<Dtype, MItype, MOtype, Reduction>::Layer;
};

}  // namespace caffe

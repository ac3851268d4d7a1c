#pragma once

#include "caffe/layer/layer.hpp"
#include "caffe/layer/term_sum.hpp"

namespace caffe {

// What losses have in common: bottom 0 and bottom 1 with the same number of items, and top 0 with
// no axes, which stays on the device. The gradient is the diff of top 0, read there too, so that a
// loss weight and a loss scale are factors in it.
class LossBase : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;

 protected:
  // loss_param.normalization as TermSum::Divide takes it: FULL outer * inner, VALID 0,
  // BATCH_SIZE outer, NONE 1. `otherwise` (of LossParameter::NormalizationMode) is in effect if the
  // message has neither it nor its older form, normalize.
  double Divisor(int64_t outer, int64_t inner, int otherwise) const;

  TermSum sum_;
};

}  // namespace caffe

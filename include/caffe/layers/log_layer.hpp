#pragma once

#include "caffe/layer/input_copy.hpp"
#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// y = ln(shift + scale x) / ln(base).
//   dE/dx = scale / (ln(base) (shift + scale x)) dE/dy
// bottom 0, top 0: any shape, the same. In place allowed: a copy of the bottom is kept for the
// gradient.
// log_param: base (-1, that is e; else positive and not 1), scale (1), shift (0).
// Types: float kinds. A base without a finite, non-zero logarithm is an error.
class Log : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;

 private:
  double scale_ = 1, shift_ = 0, factor_ = 1;  // factor: 1 / ln(base)
  InputCopy input_;
  std::unique_ptr<Kernel> forward_, backward_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class LogLayer final : public Layer<Dtype, MItype, MOtype, Log> {
  using Layer<Dtype, MItype, MOtype, Log>::Layer;
};

}  // namespace caffe

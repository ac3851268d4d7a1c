#pragma once

#include "caffe/layer/class_scores.hpp"
#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// The indices and values of the top_k largest elements, largest first; of equal ones the later
// comes first. NaN is smaller than everything.
// bottom 0: with axis [outer…, C, inner…], without [N, …].
// top 0, always float, so that indices are exact: with axis [outer…, top_k, inner…], the indices
//   along the axis, or with out_max_val the values; without axis [N, 1, top_k], the indices in the
//   item, or with out_max_val [N, 2, top_k], indices then values; axes of extent 1 follow up to the
//   bottom's number of axes. No gradient.
// argmax_param: out_max_val (false), top_k (1), axis (unset).
// Types: float kinds; quant8 and quant16 forward, which compare codes. The top is float.
class ArgMax : public LayerBase, public HasClassScores {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  std::optional<ClassScores> class_scores() const override {
    return ClassScores{channels_, inner_};
  }

 private:
  int64_t outer_ = 0, channels_ = 0, inner_ = 0;
  std::unique_ptr<Kernel> forward_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class ArgMaxLayer final : public Layer<Dtype, MItype, MOtype, ArgMax> {
  using Layer<Dtype, MItype, MOtype, ArgMax>::Layer;
};

}  // namespace caffe

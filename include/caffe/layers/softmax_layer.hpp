#pragma once

#include "caffe/layer/class_scores.hpp"
#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// y = exp(x) / sum of exp(x) along an axis, computed after subtracting the largest x.
//   dE/dx = y (dE/dy - sum of dE/dy y)
// bottom 0, top 0: any shape, the same. In place allowed.
// softmax_param: axis (1).
// Types: float kinds.
class Softmax : public LayerBase, public HasClassScores {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  LayerFacts Facts() const override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  std::optional<ClassScores> class_scores() const override {
    return ClassScores{channels_, inner_};
  }

 private:
  int64_t outer_ = 0, channels_ = 0, inner_ = 0;
  // Kernels for inner = 1, where a row is contiguous, and kernels for the general case.
  std::unique_ptr<Kernel> forward_rows_, forward_, backward_rows_, backward_;
  std::unique_ptr<Kernel> forward_groups_;  // null on the CPU
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class SoftmaxLayer final : public Layer<Dtype, MItype, MOtype, Softmax> {
  using Layer<Dtype, MItype, MOtype, Softmax>::Layer;
};

}  // namespace caffe

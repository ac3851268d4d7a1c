#pragma once

#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// Copies of a blob for several readers: the tops share the bottom's data, and dE/dx is the sum of
// the gradients of all tops.
// bottom 0: any shape; top 0…: the same. Not in place.
// Types: all, the range is carried through; backward float kinds.
class Split : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  int tops_ = 0;
  std::unique_ptr<Kernel> add_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class SplitLayer final : public Layer<Dtype, MItype, MOtype, Split> {
  using Layer<Dtype, MItype, MOtype, Split>::Layer;
};

}  // namespace caffe

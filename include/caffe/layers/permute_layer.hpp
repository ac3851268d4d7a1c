#pragma once

#include "caffe/layer/layer.hpp"
#include "caffe/layer/strided_copy.hpp"

namespace caffe {

class LayerRegistry;

// The same elements with the axes in another order: axis i of the top is axis order[i] of the bottom.
// The gradient is permuted back.
// bottom 0: any shape; top 0: the extents in the new order. Not in place.
// permute_param: order; axes that it omits follow in their order.
// Types: all; the range of quantized blobs is carried through. Backward float kinds.
class Permute : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  // For each axis of the top, the index of the bottom's axis.
  std::vector<int> Order(const Shape& shape) const;

  StridedCopy forward_, backward_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class PermuteLayer final : public Layer<Dtype, MItype, MOtype, Permute> {
  using Layer<Dtype, MItype, MOtype, Permute>::Layer;
};

}  // namespace caffe

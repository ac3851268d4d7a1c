#pragma once

#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// Merges the axes from `axis` to `end_axis`, both included, into one. Data and diff are shared with
// the bottom; nothing is copied.
// bottom 0: any shape; top 0: [d0, …, product, …]. Not in place.
// flatten_param: axis (1), end_axis (-1).
// Types: all, the range is carried through; backward float kinds.
class Flatten : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class FlattenLayer final : public Layer<Dtype, MItype, MOtype, Flatten> {
  using Layer<Dtype, MItype, MOtype, Flatten>::Layer;
};

}  // namespace caffe

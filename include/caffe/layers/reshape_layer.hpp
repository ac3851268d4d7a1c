#pragma once

#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// The same elements with another shape. The top shares the bottom's data and diff; nothing is
// copied.
// bottom 0: any shape; top 0: the bottom's, with num_axes axes from `axis` on replaced by
// reshape_param.shape, where 0 means the bottom's extent at that index and one -1 is inferred. Not
// in place.
// reshape_param: shape, axis (0; -1 appends), num_axes (-1: all that follow; 0 inserts).
// Types: all; the range of quantized blobs is carried through.
class ReshapeAxes : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  Shape TopShape(const Shape& shape) const;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class ReshapeLayer final : public Layer<Dtype, MItype, MOtype, ReshapeAxes> {
  using Layer<Dtype, MItype, MOtype, ReshapeAxes>::Layer;
};

}  // namespace caffe

#pragma once

#include "caffe/layer/layer.hpp"
#include "caffe/layer/strided_copy.hpp"

namespace caffe {

class LayerRegistry;

// Repeats the bottom along an axis: index i of the top's axis is index i % extent of the bottom's.
// The gradient is the sum over the repetitions.
// bottom 0: any shape; top 0: the same, but `tiles` times the extent along the axis. Not in place.
// tile_param: axis (1, from the end if negative), tiles (needed).
// Types: all; the range of quantized blobs is carried through. Backward float kinds.
class Tile : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  int64_t outer_ = 0, row_ = 0;  // the bottom is [outer, row], and each row is repeated
  StridedCopy forward_;
  std::unique_ptr<Kernel> backward_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class TileLayer final : public Layer<Dtype, MItype, MOtype, Tile> {
  using Layer<Dtype, MItype, MOtype, Tile>::Layer;
};

}  // namespace caffe

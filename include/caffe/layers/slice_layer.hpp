#pragma once

#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// Cuts the bottom along an axis: top i has the indices [slice_point i-1, slice_point i). The
// bottom's gradient joins those of the tops. A single top shares data and diff with the bottom;
// nothing is copied then.
// bottom 0: any shape; top 0…: the same except along the axis.
// slice_param: axis (1, from the end if negative), or its older form slice_dim (1); slice_point,
//   strictly increasing, one fewer than tops; without any the axis is cut into equal parts.
// Types: all; the range of quantized blobs is carried through. Backward float kinds.
class Slice : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  // The extent of each top along the axis.
  std::vector<int64_t> Extents(int64_t extent, int64_t tops) const;

  int64_t outer_ = 0;
  int64_t row_ = 0;            // elements of the bottom for one index of the outer axes
  std::vector<int64_t> rows_;  // the same of each top
  std::unique_ptr<Kernel> copy_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class SliceLayer final : public Layer<Dtype, MItype, MOtype, Slice> {
  using Layer<Dtype, MItype, MOtype, Slice>::Layer;
};

}  // namespace caffe

#pragma once

#include "caffe/layer/layer.hpp"
#include "caffe/layer/strided_copy.hpp"

namespace caffe {

class LayerRegistry;

// A window of bottom 0 that has the extents of bottom 1 from an axis on:
//   y[i, j, …] = x[i + offset_i, j + offset_j, …]
// The gradient is that of y inside the window, and 0 outside. Only the shape of bottom 1 is used:
// its data are not read, and it has no gradient.
// bottom 0: any shape; bottom 1: as many axes; top 0: the extents of bottom 0 before the axis and of
// bottom 1 from it on. Not in place.
// crop_param: axis (2, from the end if negative), offset (0; one for all axes from there on, or one
//   for each).
// Types: all; the range of quantized blobs is carried through. Backward float kinds.
class Crop : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  int64_t start_ = 0;   // of the window, in elements of bottom 0
  bool whole_ = false;  // the window is all of bottom 0
  StridedCopy forward_, backward_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class CropLayer final : public Layer<Dtype, MItype, MOtype, Crop> {
  using Layer<Dtype, MItype, MOtype, Crop>::Layer;
};

}  // namespace caffe

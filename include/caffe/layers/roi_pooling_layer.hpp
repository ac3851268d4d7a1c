#pragma once

#include "caffe/layer/layer.hpp"
#include "caffe/layer/regions.hpp"

namespace caffe {

class LayerRegistry;

// The largest value of each bin of each region (Fast R-CNN, arXiv:1504.08083, section 2.1). A region
// is (image, x0, y0, x1, y1); its coordinates times spatial_scale, rounded half away from zero, are
// the first and the last column and row on the feature map, so that it has x1 - x0 + 1 columns, but
// at least 1. Of n columns bin i of pooled_w has those from floor(i n / pooled_w) to
// ceil((i + 1) n / pooled_w), without the last; rows likewise. Bins are cut at the map; an empty bin
// gives 0. The gradient goes to the first largest value; an element gets the sum over its bins.
// bottom 0: features [N, C, H, W]; bottom 1: regions [R, 5] (5 values for each, of any shape), which
// get no gradient; top 0: [R, C, pooled_h, pooled_w].
// roi_pooling_param: pooled_h, pooled_w, spatial_scale (1).
// Types: float kinds; regions are float in all of them.
class ROIPooling : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;
  // Throws if a region has an image that is not in the batch; on a device its values are NaN.
  void CheckData() override;

 private:
  int64_t pooled_h_ = 0, pooled_w_ = 0;
  int64_t images_ = 0, channels_ = 0, height_ = 0, width_ = 0;
  Regions regions_;
  std::shared_ptr<BlobBase> places_;  // the index of each maximum (integers)
  std::unique_ptr<Kernel> forward_, backward_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class ROIPoolingLayer final : public Layer<Dtype, MItype, MOtype, ROIPooling> {
  using Layer<Dtype, MItype, MOtype, ROIPooling>::Layer;
};

}  // namespace caffe

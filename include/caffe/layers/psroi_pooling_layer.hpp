#pragma once

#include "caffe/layer/layer.hpp"
#include "caffe/layer/regions.hpp"

namespace caffe {

class LayerRegistry;

// The mean of each bin of each region, where every bin reads its own channels (R-FCN,
// arXiv:1605.06409, equation 1). A region is (image, x0, y0, x1, y1). On the feature map its
// columns begin at round(x0) spatial_scale and end at (round(x1) + 1) spatial_scale, but are at
// least 0.1 wide; rows likewise. It is divided into group_size x group_size equal bins; a bin has
// the elements in [floor(begin), ceil(end)), cut at the feature map. An empty bin gives 0.
//   y[r, o, gh, gw] = mean over the bin of x[image, (o group_size + gh) group_size + gw]
//   dE/dx = the sum of dE/dy / elements of the bin, over the bins that hold x
// bottom 0: features [N, output_dim group_size^2, H, W]; bottom 1: regions [R, 5] (5 values for each,
// of any shape), which get no gradient; top 0: [R, output_dim, group_size, group_size].
// psroi_pooling_param: spatial_scale, output_dim, group_size.
// Types: float kinds; regions are float in all of them.
class PSROIPooling : public LayerBase {
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
  int64_t outputs_ = 0, group_ = 0;
  int64_t images_ = 0, height_ = 0, width_ = 0;
  Regions regions_;
  std::unique_ptr<Kernel> forward_, backward_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class PSROIPoolingLayer final : public Layer<Dtype, MItype, MOtype, PSROIPooling> {
  using Layer<Dtype, MItype, MOtype, PSROIPooling>::Layer;
};

}  // namespace caffe

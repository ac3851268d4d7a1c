#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/place_blob.hpp"
#include "caffe/layer/regions.hpp"

namespace caffe {
namespace {

// The largest value of each bin of each region (Fast R-CNN, arXiv:1504.08083, section 2.1). A
// region is (image, x0, y0, x1, y1); its coordinates times spatial_scale, rounded half away from
// zero, are the first and the last column and row on the feature map, so that it has x1 - x0 + 1
// columns, but at least 1. Of n columns bin i of pooled_w has those from floor(i n / pooled_w) to
// ceil((i + 1) n / pooled_w), without the last; rows likewise. Bins are cut at the map; an empty
// bin gives 0. The gradient goes to the first largest value; an element gets the sum over its bins.
// bottom 0: features [N, C, H, W]; bottom 1: regions [R, 5] (5 values for each, of any shape),
// which get no gradient; top 0: [R, C, pooled_h, pooled_w].
// roi_pooling_param: pooled_h, pooled_w, spatial_scale (1).
// Types: float kinds; regions are float in all of them.
class ROIPooling : public RegionPooling {
 public:
  using RegionPooling::RegionPooling;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;

 private:
  int64_t pooled_h_ = 0, pooled_w_ = 0;
  std::shared_ptr<BlobBase> places_;  // the index of each maximum (integers)
};

template <class Dtype, class MItype, class MOtype>
using ROIPoolingLayer = Layer<Dtype, MItype, MOtype, ROIPooling>;

void ROIPooling::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const ROIPoolingParameter& parameter = layer_param().roi_pooling_param();
  pooled_h_ = parameter.pooled_h();
  pooled_w_ = parameter.pooled_w();
  CAFFE_CHECK(pooled_h_ > 0 && pooled_w_ > 0, Where(), ": pooled_h ", pooled_h_, " and pooled_w ",
              pooled_w_, " must be given and positive");
  regions_.Place(device(), "roi_regions", name());
  PlaceBlob(&places_, kFloat, device(), {0}, name() + " places");  // holds i32 bits
  forward_ = MakeKernel("pool/roi", "roi_pool_forward");
  backward_ = MakeKernel("pool/roi", "roi_pool_backward");
}

void ROIPooling::Reshape(const BlobVec& bottom, const BlobVec& top) {
  RegionPooling::Reshape(bottom, top);
  top[0]->Reshape({regions_.count(), channels_, pooled_h_, pooled_w_});
  places_->ReshapeLike(*top[0]);
}

void ROIPooling::Forward(const BlobVec& bottom, const BlobVec& top) {
  Launch(layer_param().roi_pooling_param().spatial_scale(), bottom);
  const int64_t count = top[0]->count();
  forward_->Launch(count,
                   {count, channels_, height_, width_, pooled_h_, pooled_w_, bottom[0]->Data(),
                    regions_.Data(), top[0]->MutableData(), places_->MutableData()});
}

void ROIPooling::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                          const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  const int64_t count = bottom[0]->count();
  backward_->Launch(count,
                    {count, channels_, regions_.count(), height_, width_, pooled_h_, pooled_w_,
                     top[0]->Diff(), regions_.Data(), places_->Data(), bottom[0]->MutableDiff()});
}

}  // namespace

void RegisterROIPoolingLayer(LayerRegistry& registry) {
  LayerTraits traits = RegionPooling::Traits();
  traits.summary = "maxima over a grid of bins of each region";
  registry.Add<ROIPoolingLayer>("ROIPooling", traits);
}

}  // namespace caffe

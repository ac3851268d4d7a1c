#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/regions.hpp"

namespace caffe {
namespace {

// The mean of each bin of each region, where every bin reads its own channels (R-FCN,
// arXiv:1605.06409, equation 1). A region is (image, x0, y0, x1, y1). On the feature map its
// columns begin at round(x0) spatial_scale and end at (round(x1) + 1) spatial_scale, but are at
// least 0.1 wide; rows likewise. It is divided into group_size x group_size equal bins; a bin has
// the elements in [floor(begin), ceil(end)), cut at the feature map. An empty bin gives 0.
//   y[r, o, gh, gw] = mean over the bin of x[image, (o group_size + gh) group_size + gw]
//   dE/dx = the sum of dE/dy / elements of the bin, over the bins that hold x
// bottom 0: features [N, output_dim group_size^2, H, W]; bottom 1: regions [R, 5] (5 values for
// each, of any shape), which get no gradient; top 0: [R, output_dim, group_size, group_size].
// psroi_pooling_param: spatial_scale, output_dim, group_size.
// Types: float kinds; regions are float in all of them.
class PSROIPooling : public RegionPooling {
 public:
  using RegionPooling::RegionPooling;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;

 private:
  int64_t outputs_ = 0, group_ = 0;
};

template <class Dtype, class MItype, class MOtype>
using PSROIPoolingLayer = Layer<Dtype, MItype, MOtype, PSROIPooling>;

void PSROIPooling::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const PSROIPoolingParameter& parameter = layer_param().psroi_pooling_param();
  outputs_ = parameter.output_dim();
  group_ = parameter.group_size();
  CAFFE_CHECK(outputs_ > 0 && group_ > 0, Where(), ": output_dim ", outputs_, " and group_size ",
              group_, " must be given and positive");
  CAFFE_CHECK(parameter.spatial_scale() > 0, Where(), ": spatial_scale ", parameter.spatial_scale(),
              " must be given and positive");
  regions_.Place(device(), "psroi_regions", name());
  forward_ = MakeKernel("pool/psroi", "psroi_pool_forward");
  backward_ = MakeKernel("pool/psroi", "psroi_pool_backward");
}

void PSROIPooling::Reshape(const BlobVec& bottom, const BlobVec& top) {
  RegionPooling::Reshape(bottom, top);
  CAFFE_CHECK(bottom[0]->shape(1) == outputs_ * group_ * group_, Where(), ": output_dim ", outputs_,
              " and group_size ", group_, " need ", outputs_ * group_ * group_,
              " channels, but the features have shape ", bottom[0]->shape_string());
  top[0]->Reshape({regions_.count(), outputs_, group_, group_});
}

void PSROIPooling::Forward(const BlobVec& bottom, const BlobVec& top) {
  Launch(layer_param().psroi_pooling_param().spatial_scale(), bottom);
  const int64_t count = top[0]->count();
  forward_->Launch(count, {count, outputs_, height_, width_, group_, bottom[0]->Data(),
                           regions_.Data(), top[0]->MutableData()});
}

void PSROIPooling::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                            const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  const int64_t count = bottom[0]->count();
  backward_->Launch(count, {count, outputs_, regions_.count(), height_, width_, group_,
                            top[0]->Diff(), regions_.Data(), bottom[0]->MutableDiff()});
}

}  // namespace

void RegisterPSROIPoolingLayer(LayerRegistry& registry) {
  LayerTraits traits = RegionPooling::Traits();
  traits.summary = "means over the bins of each region, each bin from its own channels";
  registry.Add<PSROIPoolingLayer>("PSROIPooling", traits);
}

}  // namespace caffe

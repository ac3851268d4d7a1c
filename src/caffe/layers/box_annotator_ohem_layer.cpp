#include "caffe.pb.h"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// Online hard example mining (Shrivastava et al., arXiv:1604.03540; R-FCN, arXiv:1605.06409): of
// each image, the roi_per_img items with the largest losses keep their labels and weights; of equal
// losses the earlier item. All others get ignore_label and weights of 0.
// bottom 0: regions [R, 5], whose first value is the image; bottom 1: losses [R, …]; bottom 2:
// labels, as many; bottom 3: weights of boxes [R, C, …]. top 0: labels, top 1: weights, of the
// shapes of bottoms 2 and 3. All but the losses are float in nets of every type.
// box_annotator_ohem_param: roi_per_img, ignore_label (-1).
// Types: float kinds. No gradient.
class BoxAnnotatorOHEM : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  LayerFacts Facts() const override;

 private:
  int64_t items_ = 0, inner_ = 1, channels_ = 0;
  std::unique_ptr<Kernel> choose_;
};

template <class Dtype, class MItype, class MOtype>
using BoxAnnotatorOHEMLayer = Layer<Dtype, MItype, MOtype, BoxAnnotatorOHEM>;

void BoxAnnotatorOHEM::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(layer_param().box_annotator_ohem_param().roi_per_img() > 0, Where(),
              ": roi_per_img must be given and positive");
  choose_ = MakeKernel("box/ohem", "ohem_choose");
}

void BoxAnnotatorOHEM::Reshape(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(bottom[0]->num_axes() >= 1 && bottom[0]->count(1) == 5, Where(),
              ": needs regions of shape [R, 5] (image, x0, y0, x1, y1), not ",
              bottom[0]->shape_string());
  const int64_t regions = bottom[0]->shape(0);
  items_ = bottom[1]->count();
  CAFFE_CHECK(bottom[1]->num_axes() > 0 && bottom[1]->shape(0) == regions, Where(), ": ", regions,
              " regions need as many losses, but they have shape ", bottom[1]->shape_string());
  inner_ = regions == 0 ? 1 : items_ / regions;
  CAFFE_CHECK(bottom[2]->count() == items_, Where(), ": losses of shape ",
              bottom[1]->shape_string(), " need as many labels, but they have shape ",
              bottom[2]->shape_string());
  CAFFE_CHECK(
      bottom[3]->num_axes() > 1 && bottom[3]->shape(0) == regions && bottom[3]->count(2) == inner_,
      Where(), ": losses of shape ", bottom[1]->shape_string(), " need weights of shape [", regions,
      ", C, …], but they have shape ", bottom[3]->shape_string());
  channels_ = bottom[3]->shape(1);
  top[0]->ReshapeLike(*bottom[2]);
  top[1]->ReshapeLike(*bottom[3]);
}

void BoxAnnotatorOHEM::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (items_ == 0) return;
  const BoxAnnotatorOHEMParameter& parameter = layer_param().box_annotator_ohem_param();
  choose_->Launch(LaunchRange::WithCost(items_, items_),
                  {items_, inner_, channels_, parameter.roi_per_img(), parameter.ignore_label(),
                   bottom[0]->Data(), bottom[1]->Data(), bottom[2]->Data(), bottom[3]->Data(),
                   top[0]->MutableData(), top[1]->MutableData()});
}

LayerFacts BoxAnnotatorOHEM::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  return facts;
}

}  // namespace

void RegisterBoxAnnotatorOHEMLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 4;
  traits.min_top = traits.max_top = 2;
  traits.float_bottoms = {0, 2, 3};
  traits.float_tops = {0, 1};
  traits.no_gradient_bottoms = {0, 1, 2, 3};
  traits.backward = false;
  traits.summary = "labels and weights of the regions with the largest losses (R-FCN)";
  registry.Add<BoxAnnotatorOHEMLayer>("BoxAnnotatorOHEM", traits);
}

}  // namespace caffe

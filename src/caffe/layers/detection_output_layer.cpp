#include <algorithm>
#include <limits>

#include "caffe.pb.h"
#include "caffe/core/log.hpp"
#include "caffe/layer/box_lists.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/place_blob.hpp"

namespace caffe {
namespace {

// The detections of SSD (arXiv:1512.02325): the boxes that locations name relative to priors,
// without those that overlap a better one of their class (non-maximum suppression).
// The candidates of a class are the priors with scores above confidence_threshold; the top_k best
// of them are taken in the order of their scores, of equal scores the earlier prior first. A
// candidate is kept if its overlap (intersection over union) with every kept one is at most
// nms_threshold, which is multiplied by eta after each kept one while it is above 0.5. Of each
// image the keep_top_k best remain; of equal scores those of the lower class.
// bottom 0: codes of boxes, P x 4 for each image and, unless share_location, for each class;
// bottom 1: scores, P x num_classes for each image; bottom 2: [1, 2, 4 P], priors and variances,
// which are float in nets of every type; bottom 3 (optional): images, which are not read.
// top 0: [1, 1, K, 7], float: (image, class, score, x0, y0, x1, y1), in the order of images,
// classes and scores; without any detection one row (image, -1, -1, -1, -1, -1, -1) for each image.
// detection_output_param: num_classes; share_location (true), background_label_id (0; -1: none),
// nms_param: nms_threshold (0.3), top_k (all), eta (1); keep_top_k (-1: all), confidence_threshold
// (all), code_type (CORNER), variance_encoded_in_target (false).
// Types: float kinds. No gradient.
class DetectionOutput : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  LayerFacts Facts() const override;

 private:
  const DetectionOutputParameter& parameter() const {
    return layer_param().detection_output_param();
  }

  int64_t images_ = 0, priors_ = 0, classes_ = 0, box_classes_ = 0, limit_ = 0;
  std::shared_ptr<BlobBase> boxes_;  // [images, priors, box classes, 4]
  BoxLists candidates_;              // of each image and class
  BoxSuppression suppression_;
  std::unique_ptr<Kernel> decode_, find_;
};

template <class Dtype, class MItype, class MOtype>
using DetectionOutputLayer = Layer<Dtype, MItype, MOtype, DetectionOutput>;

void DetectionOutput::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const DetectionOutputParameter& p = parameter();
  CAFFE_CHECK(p.num_classes() > 0, Where(), ": num_classes must be given and positive");
  classes_ = p.num_classes();
  box_classes_ = p.share_location() ? 1 : classes_;
  CAFFE_CHECK(p.background_label_id() >= -1 && p.background_label_id() < classes_, Where(),
              ": background_label_id ", p.background_label_id(), " is not one of the ", classes_,
              " classes; -1 means that there is no background");
  const NonMaximumSuppressionParameter& nms = p.nms_param();
  CAFFE_CHECK(nms.nms_threshold() >= 0, Where(), ": nms_threshold ", nms.nms_threshold(),
              " must not be negative");
  CAFFE_CHECK(nms.eta() > 0 && nms.eta() <= 1, Where(), ": eta ", nms.eta(),
              " must be greater than 0 and at most 1");
  CAFFE_CHECK(!nms.soft_nms(), Where(), ": soft_nms is not supported; remove it");
  if (p.has_save_output_param() && !p.save_output_param().output_directory().empty()) {
    log::Warning(Where() + ": save_output_param has no effect; the top has the detections");
  }
  if (p.visualize()) log::Warning(Where() + ": visualize has no effect; the top has the boxes");
  PlaceBlob(&boxes_, kFloat, device(), {0}, name() + " boxes");
  candidates_.Place(device(), name() + " candidates");
  suppression_.Place(device(), name());
  decode_ = MakeKernel("box/detect", "box_decode");
  find_ = MakeKernel("box/detect", "box_candidates");
}

void DetectionOutput::Reshape(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(bottom[0]->num_axes() > 0 && bottom[1]->num_axes() > 0, Where(),
              ": locations of shape ", bottom[0]->shape_string(), " and scores of shape ",
              bottom[1]->shape_string(), " need an axis of images");
  CAFFE_CHECK(bottom[2]->count() % 8 == 0, Where(), ": priors of shape ", bottom[2]->shape_string(),
              " must have shape [1, 2, 4 P], as PriorBox makes them");
  images_ = bottom[0]->shape(0);
  priors_ = bottom[2]->count() / 8;
  CAFFE_CHECK(bottom[0]->count(1) == priors_ * box_classes_ * 4, Where(), ": ", priors_,
              " priors need ", priors_ * box_classes_ * 4,
              " locations for each image, but there are ", bottom[0]->count(1),
              box_classes_ == 1 ? "" : "; see share_location");
  CAFFE_CHECK(bottom[1]->shape(0) == images_ && bottom[1]->count(1) == priors_ * classes_, Where(),
              ": ", images_, " images, ", priors_, " priors and num_classes ", classes_, " need ",
              priors_ * classes_, " scores for each image, but the scores have shape ",
              bottom[1]->shape_string());
  CAFFE_CHECK(priors_ * classes_ < (int64_t{1} << 31) && images_ * priors_ < (int64_t{1} << 31),
              Where(), ": ", images_, " images with ", priors_, " priors and ", classes_,
              " classes are too many");
  const int64_t top_k = parameter().nms_param().has_top_k() ? parameter().nms_param().top_k() : -1;
  limit_ = top_k < 0 ? priors_ : std::min(top_k, priors_);
  boxes_->Reshape({images_, priors_, box_classes_, 4});
  candidates_.Reshape(images_ * classes_, BoxLists::Blocks(priors_), BoxLists::kBlock);
  BoxSuppression::Setting setting;
  setting.threshold = parameter().nms_param().nms_threshold();
  setting.eta = parameter().nms_param().eta();
  setting.lists = setting.classes = classes_;
  setting.priors = priors_;
  setting.box_classes = box_classes_;
  setting.limit = limit_;
  setting.keep = parameter().keep_top_k();
  suppression_.Reshape(images_, setting);
  top[0]->Reshape({1, 1, 1, 7});
}

void DetectionOutput::Forward(const BlobVec& bottom, const BlobVec& top) {
  const DetectionOutputParameter& p = parameter();
  const int64_t boxes = images_ * priors_ * box_classes_;
  if (boxes == 0) return suppression_.WriteNothing(top[0]);
  decode_->Launch(boxes, {boxes, priors_, box_classes_, static_cast<int>(p.code_type()),
                          p.variance_encoded_in_target(), bottom[0]->Data(), bottom[2]->Data(),
                          boxes_->MutableData()});
  candidates_.Begin();
  const int64_t lists = images_ * classes_ * candidates_.runs();
  const double threshold = p.has_confidence_threshold() ? p.confidence_threshold()
                                                        : std::numeric_limits<float>::lowest();
  find_->Launch(
      LaunchRange::WithCost(lists, BoxLists::kBlock),
      {lists, priors_, classes_, candidates_.runs(), BoxLists::kBlock, p.background_label_id(),
       threshold, bottom[1]->Data(), candidates_.keys().MutableData(),
       candidates_.ids().MutableData(), candidates_.counts().MutableData()});
  candidates_.Merge(limit_);
  suppression_.Launch(&candidates_, *boxes_);
  suppression_.Write(*boxes_, top[0]);
}

LayerFacts DetectionOutput::Facts() const {
  LayerFacts facts;
  facts.host = true;  // waits for the number of detections
  facts.shapes_from_data = true;
  return facts;
}

}  // namespace

void RegisterDetectionOutputLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = 3;
  traits.max_bottom = 4;
  traits.float_bottoms = {2};
  traits.float_tops = {0};
  traits.no_gradient_bottoms = {0, 1, 2, 3};
  traits.backward = false;
  traits.summary = "boxes of SSD without overlapping ones";
  registry.Add<DetectionOutputLayer>("DetectionOutput", traits);
}

}  // namespace caffe

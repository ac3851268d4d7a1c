#include <algorithm>
#include <cmath>
#include <limits>

#include "caffe.pb.h"
#include "caffe/layer/box_lists.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/place_blob.hpp"

namespace caffe {
namespace {

// The proposals of a region proposal network (Faster R-CNN, arXiv:1506.01497), as the module rpn of
// py-faster-rcnn computes them. Anchors of each cell of the feature map are the square of base_size
// pixels with the same area and each ratio of height and width, rounded to whole pixels, times each
// scale. A code (dx, dy, dw, dh) moves the centre of an anchor by dx w, dy h and multiplies its
// extents by e^dw, e^dh; boxes are cut at the image. Boxes with a side of less than min_size
// pixels, times the scale of the image, are left out. The pre_nms_topn best ones are candidates. A
// candidate is kept if its overlap with every better one that was kept is at most nms_thresh, until
// there are post_nms_topn. If scores are equal, the earlier cell comes first, and then the earlier
// anchor. The last pixel belongs to a box.
// bottom 0: scores [N, 2 A, H, W], those of objects are the second half; bottom 1: codes
// [N, 4 A, H, W]; bottom 2: [N, 3 or more], the height, width and scale of each image, float in
// nets of every type. top 0: [K, 5], float: (image, x0, y0, x1, y1), best first; top 1 (optional):
// scores [K, 1].
// proposal_param: feat_stride (16), base_size (16), min_size (16), ratio (0.5, 1, 2), scale (8, 16,
// 32), pre_nms_topn (6000), post_nms_topn (300), nms_thresh (0.7).
// Types: float kinds. No gradient.
class Proposal : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  LayerFacts Facts() const override;

 private:
  const ProposalParameter& parameter() const { return layer_param().proposal_param(); }
  // (x0, y0, x1, y1) of each anchor of the first cell.
  std::vector<double> Anchors() const;

  int64_t anchor_count_ = 0, images_ = 0, height_ = 0, width_ = 0, priors_ = 0, limit_ = 0;
  std::shared_ptr<BlobBase> anchors_, boxes_, scores_;
  BoxLists candidates_;
  BoxSuppression suppression_;
  std::unique_ptr<Kernel> predict_, find_;
};

template <class Dtype, class MItype, class MOtype>
using ProposalLayer = Layer<Dtype, MItype, MOtype, Proposal>;

std::vector<double> Proposal::Anchors() const {
  std::vector<float> ratios(parameter().ratio().begin(), parameter().ratio().end());
  std::vector<float> scales(parameter().scale().begin(), parameter().scale().end());
  if (ratios.empty()) ratios = {0.5f, 1, 2};
  if (scales.empty()) scales = {8, 16, 32};
  const double base = parameter().base_size(), centre = 0.5 * (base - 1);
  std::vector<double> anchors;
  for (const float ratio : ratios) {
    CAFFE_CHECK(ratio > 0, Where(), ": ratio ", ratio, " must be positive");
    const double width = std::nearbyint(std::sqrt(base * base / ratio));
    const double height = std::nearbyint(width * ratio);
    for (const float scale : scales) {
      CAFFE_CHECK(scale > 0, Where(), ": scale ", scale, " must be positive");
      const double half_w = 0.5 * (width * scale - 1), half_h = 0.5 * (height * scale - 1);
      anchors.insert(anchors.end(),
                     {centre - half_w, centre - half_h, centre + half_w, centre + half_h});
    }
  }
  return anchors;
}

void Proposal::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const ProposalParameter& p = parameter();
  CAFFE_CHECK(p.feat_stride() > 0 && p.base_size() > 0, Where(), ": feat_stride ", p.feat_stride(),
              " and base_size ", p.base_size(), " must be positive");
  CAFFE_CHECK(p.pre_nms_topn() > 0 && p.post_nms_topn() > 0, Where(), ": pre_nms_topn ",
              p.pre_nms_topn(), " and post_nms_topn ", p.post_nms_topn(), " must be positive");
  CAFFE_CHECK(p.nms_thresh() >= 0, Where(), ": nms_thresh ", p.nms_thresh(),
              " must not be negative");
  const std::vector<double> anchors = Anchors();
  anchor_count_ = static_cast<int64_t>(anchors.size()) / 4;
  PlaceBlob(&anchors_, kFloat, device(), {static_cast<int64_t>(anchors.size())},
            name() + " anchors");
  anchors_->SetData(anchors);
  PlaceBlob(&boxes_, kFloat, device(), {0}, name() + " boxes");
  PlaceBlob(&scores_, kFloat, device(), {0}, name() + " scores");
  candidates_.Place(device(), name() + " candidates");
  suppression_.Place(device(), name());
  predict_ = MakeKernel("box/proposal", "proposal_boxes");
  find_ = MakeKernel("box/detect", "box_candidates", TypeTriple::Equal(kFloat));
}

void Proposal::Reshape(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(bottom[0]->num_axes() == 4 && bottom[0]->shape(1) == 2 * anchor_count_, Where(), ": ",
              anchor_count_, " anchors need scores of shape [N, ", 2 * anchor_count_,
              ", H, W], not ", bottom[0]->shape_string(), "; see ratio and scale");
  images_ = bottom[0]->shape(0);
  height_ = bottom[0]->shape(2);
  width_ = bottom[0]->shape(3);
  CAFFE_CHECK(bottom[1]->shape() == Shape({images_, 4 * anchor_count_, height_, width_}), Where(),
              ": scores of shape ", bottom[0]->shape_string(), " need codes of shape [", images_,
              ", ", 4 * anchor_count_, ", ", height_, ", ", width_, "], not ",
              bottom[1]->shape_string());
  CAFFE_CHECK(bottom[2]->num_axes() > 0 && bottom[2]->shape(0) == images_ &&
                  (images_ == 0 || bottom[2]->count(1) >= 3),
              Where(), ": ", images_, " images need their height, width and scale, [", images_,
              ", 3], but blob ", bottom[2]->name(), " has shape ", bottom[2]->shape_string());
  priors_ = height_ * width_ * anchor_count_;
  CAFFE_CHECK(images_ * priors_ < (int64_t{1} << 31), Where(), ": ", images_, " images with ",
              priors_, " anchors are too many");
  limit_ = std::min<int64_t>(parameter().pre_nms_topn(), priors_);
  boxes_->Reshape({images_, priors_, 1, 4});
  scores_->Reshape({images_, priors_, 1});
  candidates_.Reshape(images_, BoxLists::Blocks(priors_), BoxLists::kBlock);
  BoxSuppression::Setting setting;
  setting.threshold = parameter().nms_thresh();
  setting.pixel = 1;
  setting.priors = std::max<int64_t>(1, priors_);
  setting.limit = limit_;
  setting.keep = parameter().post_nms_topn();
  suppression_.Reshape(images_, setting);
  top[0]->Reshape({1, 5});
  if (top.size() > 1) top[1]->Reshape({1, 1});
}

void Proposal::Forward(const BlobVec& bottom, const BlobVec& top) {
  const int64_t count = images_ * priors_;
  candidates_.Begin();
  if (count > 0) {
    predict_->Launch(
        LaunchRange::WithCost(count, 8),
        {count, anchor_count_, height_, width_, static_cast<double>(parameter().feat_stride()),
         static_cast<double>(parameter().min_size()), bottom[2]->count(1), bottom[0]->Data(),
         bottom[1]->Data(), bottom[2]->Data(), anchors_->Data(), boxes_->MutableData(),
         scores_->MutableData()});
    const int64_t lists = images_ * candidates_.runs();
    find_->Launch(LaunchRange::WithCost(lists, BoxLists::kBlock),
                  {lists, priors_, 1, candidates_.runs(), BoxLists::kBlock, -1,
                   static_cast<double>(std::numeric_limits<float>::lowest()), scores_->Data(),
                   candidates_.keys().MutableData(), candidates_.ids().MutableData(),
                   candidates_.counts().MutableData()});
    candidates_.Merge(limit_);
    suppression_.Launch(&candidates_, *boxes_);
    suppression_.WriteRegions(*boxes_, top[0], top.size() > 1 ? top[1] : nullptr);
  } else {
    top[0]->Reshape({0, 5});
    if (top.size() > 1) top[1]->Reshape({0, 1});
  }
}

LayerFacts Proposal::Facts() const {
  LayerFacts facts;
  facts.host = true;  // waits for the number of proposals
  facts.shapes_from_data = true;
  return facts;
}

}  // namespace

void RegisterProposalLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 3;
  traits.max_top = 2;
  traits.float_bottoms = {2};
  traits.float_tops = {0, 1};
  traits.no_gradient_bottoms = {0, 1, 2};
  traits.backward = false;
  traits.summary = "the best boxes of a region proposal network (Faster R-CNN)";
  registry.Add<ProposalLayer>("Proposal", traits);
}

}  // namespace caffe

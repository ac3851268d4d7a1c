#include "caffe/layer/yolo_output.hpp"

#include <cmath>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/place_blob.hpp"

namespace caffe {

LayerTraits YoloOutput::Traits() {
  LayerTraits traits;
  traits.max_bottom = -1;
  traits.float_tops = {0};
  traits.no_gradient_bottoms = {0};
  traits.backward = false;
  return traits;
}

void YoloOutput::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  setting_ = ReadSetting(bottom);
  CAFFE_CHECK(setting_.classes > 0, Where(), ": num_classes must be positive");
  CAFFE_CHECK(setting_.overlap >= 0, Where(), ": nms_threshold ", setting_.overlap,
              " must not be negative");
  sizes_.resize(bottom.size());
  PlaceBlob(&boxes_, kFloat, device(), {0}, name() + " boxes");
  PlaceBlob(&scores_, kFloat, device(), {0}, name() + " scores");
  candidates_.Place(device(), name() + " candidates");
  suppression_.Place(device(), name());
  for (size_t b = 0; b < bottom.size(); ++b) {
    PlaceBlob(&sizes_[b], kFloat, device(), {0}, name() + " anchors");
  }
  predict_ = MakeKernel("box/yolo", "yolo_boxes");
  find_ = MakeKernel("box/detect", "box_candidates", TypeTriple::Equal(kFloat));
}

void YoloOutput::Reshape(const BlobVec& bottom, const BlobVec& top) {
  priors_ = 0;
  for (size_t b = 0; b < bottom.size(); ++b) {
    const std::vector<Anchor>& anchors = setting_.anchors[b];
    const int64_t count = static_cast<int64_t>(anchors.size());
    CAFFE_CHECK(bottom[b]->num_axes() == 4 && bottom[b]->shape(0) == bottom[0]->shape(0) &&
                    bottom[b]->shape(1) == count * (5 + setting_.classes),
                Where(), ": ", count, " anchors and ", setting_.classes,
                " classes need predictions of shape [images, ", count * (5 + setting_.classes),
                ", height, width], but blob ", bottom[b]->name(), " has shape ",
                bottom[b]->shape_string());
    std::vector<double> sizes;
    for (const Anchor& anchor : anchors) {
      sizes.push_back(anchor.width / static_cast<double>(bottom[b]->shape(3)));
    }
    for (const Anchor& anchor : anchors) {
      sizes.push_back(anchor.height / static_cast<double>(bottom[b]->shape(2)));
    }
    sizes_[b]->Reshape({static_cast<int64_t>(sizes.size())});
    sizes_[b]->SetData(sizes);
    priors_ += count * bottom[b]->count(2);
  }
  images_ = bottom[0]->shape(0);
  CAFFE_CHECK(images_ * priors_ * setting_.classes < (int64_t{1} << 31), Where(), ": ", images_,
              " images with ", priors_, " predictions and ", setting_.classes,
              " classes are too many");
  boxes_->Reshape({images_, priors_, 1, 4});
  scores_->Reshape({images_, priors_, setting_.classes});
  candidates_.Reshape(images_, setting_.classes * BoxLists::Blocks(priors_), BoxLists::kBlock);
  BoxSuppression::Setting setting;
  // Overlaps that are equal to the threshold are too large.
  setting.threshold = std::nextafter(static_cast<float>(setting_.overlap), -1.f);
  setting.classes = setting_.classes;
  setting.priors = priors_;
  setting.first_label = 1;
  setting.limit = priors_ * setting_.classes;
  suppression_.Reshape(images_, setting);
  top[0]->Reshape({1, 1, 1, 7});
}

void YoloOutput::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (images_ * priors_ == 0) return suppression_.WriteNothing(top[0]);
  int64_t first = 0;
  for (size_t b = 0; b < bottom.size(); ++b) {
    const int64_t anchors = static_cast<int64_t>(setting_.anchors[b].size());
    const int64_t height = bottom[b]->shape(2), width = bottom[b]->shape(3);
    const int64_t count = images_ * anchors * height * width;
    if (count > 0) {
      predict_->Launch(
          LaunchRange::WithCost(count, setting_.classes),
          {count, anchors, setting_.classes, height, width, priors_, first, setting_.softmax,
           bottom[b]->Data(), sizes_[b]->Data(), boxes_->MutableData(), scores_->MutableData()});
    }
    first += anchors * height * width;
  }
  candidates_.Begin();
  const int64_t blocks = BoxLists::Blocks(priors_), lists = images_ * setting_.classes * blocks;
  find_->Launch(
      LaunchRange::WithCost(lists, BoxLists::kBlock),
      {lists, priors_, setting_.classes, blocks, BoxLists::kBlock, -1,
       static_cast<double>(setting_.threshold), scores_->Data(), candidates_.keys().MutableData(),
       candidates_.ids().MutableData(), candidates_.counts().MutableData()});
  candidates_.Merge(priors_ * setting_.classes);
  suppression_.Launch(&candidates_, *boxes_);
  suppression_.Write(*boxes_, top[0]);
}

LayerFacts YoloOutput::Facts() const {
  LayerFacts facts;
  facts.host = true;  // waits for the number of detections
  facts.shapes_from_data = true;
  return facts;
}

}  // namespace caffe

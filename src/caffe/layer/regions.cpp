#include "caffe/layer/regions.hpp"

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/device/device.hpp"
#include "caffe/device/program_builder.hpp"
#include "caffe/layer/place_blob.hpp"

namespace caffe {

void Regions::Place(Device* device, const std::string& kernel, const std::string& name) {
  PlaceBlob(&regions_, kFloat, device, {0, 5}, name + " regions");
  invalid_.Place(device, name);
  const auto program = ProgramBuilder(device, "regions").Body("pool/regions").Build();
  make_ = program->CreateKernel(kernel);
  check_ = program->CreateKernel("regions_check");
}

void Regions::Reshape(const std::string& where, const BlobBase& rois) {
  CAFFE_CHECK(rois.num_axes() >= 1 && rois.count(1) == 5, where,
              ": needs regions of shape [R, 5] (image, x0, y0, x1, y1), not ", rois.shape_string());
  regions_->Reshape({rois.shape(0), 5});
}

void Regions::Launch(int64_t images, double scale, const BlobBase& rois) {
  images_ = images;
  if (count() == 0) return;
  make_->Launch(count(), {count(), images, scale, rois.Data(), regions_->MutableData()});
  check_->Launch(1, {1, count(), rois.Data(), regions_->Data(), invalid_.MutableData()});
}

void Regions::Check(const std::string& where) {
  const auto item = invalid_.Take();
  if (!item) return;
  CAFFE_THROW(where, ": region ", item->index, " is of image ", item->value, ", but the batch has ",
              images_, " image(s), numbered from 0");
}

LayerTraits RegionPooling::Traits() {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 2;
  traits.float_bottoms = traits.no_gradient_bottoms = {1};
  traits.backward_reads = Always({});
  return traits;
}

void RegionPooling::Reshape(const BlobVec& bottom, const BlobVec&) {
  CAFFE_CHECK(bottom[0]->num_axes() == 4, Where(), ": needs features of 4 axes, not of shape ",
              bottom[0]->shape_string());
  regions_.Reshape(Where(), *bottom[1]);
  images_ = bottom[0]->shape(0);
  channels_ = bottom[0]->shape(1);
  height_ = bottom[0]->shape(2);
  width_ = bottom[0]->shape(3);
}

LayerFacts RegionPooling::Facts() const {
  LayerFacts facts;
  // A forward also records invalid data, which the host reads in CheckData.
  facts.replayable = phase() == TRAIN;
  return facts;
}

void RegionPooling::Launch(double scale, const BlobVec& bottom) {
  regions_.Launch(images_, scale, *bottom[1]);
  if (device()->host_accessible()) CheckData();
}

}  // namespace caffe

#include "caffe/layer/regions.hpp"

#include "caffe/core/error.hpp"
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

}  // namespace caffe

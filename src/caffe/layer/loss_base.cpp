#include "caffe/layer/loss_base.hpp"

#include <algorithm>

#include "caffe.pb.h"

namespace caffe {

void LossBase::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  sum_.Place(device(), types());
}

void LossBase::Reshape(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(bottom[0]->num_axes() > 0 && bottom[1]->num_axes() > 0 &&
                  bottom[0]->shape(0) == bottom[1]->shape(0),
              Where(), ": the bottoms must have the same number of items, their shapes are ",
              bottom[0]->shape_string(), " and ", bottom[1]->shape_string());
  top[0]->Reshape({});
}

double LossBase::Divisor(int64_t outer, int64_t inner, int otherwise) const {
  const LossParameter& parameter = layer_param().loss_param();
  int mode = otherwise;
  if (parameter.has_normalization()) {
    mode = parameter.normalization();
  } else if (parameter.has_normalize()) {
    mode = parameter.normalize() ? LossParameter::VALID : LossParameter::BATCH_SIZE;
  }
  // Never 0, which would stand for VALID.
  if (mode == LossParameter::FULL) return static_cast<double>(std::max<int64_t>(1, outer * inner));
  if (mode == LossParameter::BATCH_SIZE) return static_cast<double>(std::max<int64_t>(1, outer));
  return mode == LossParameter::NONE ? 1 : 0;
}

}  // namespace caffe

#include "caffe/layers/memory_data_layer.hpp"

#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

void MemoryData::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const MemoryDataParameter& parameter = layer_param().memory_data_param();
  batch_ = parameter.batch_size();
  channels_ = parameter.channels();
  height_ = parameter.height();
  width_ = parameter.width();
  CAFFE_CHECK(batch_ > 0 && channels_ > 0 && height_ > 0 && width_ > 0, Where(),
              ": batch_size, channels, height and width must be positive, they are ", batch_, ", ",
              channels_, ", ", height_, ", ", width_);
}

void MemoryData::Reshape(const BlobVec& bottom, const BlobVec& top) {
  top[0]->Reshape({batch_, channels_, height_, width_});
  top[1]->Reshape({batch_});
}

void MemoryData::Reset(const float* data, const float* labels, int64_t count) {
  CAFFE_CHECK(count > 0 && count % batch_ == 0, Where(), ": ", count,
              " items are no multiple of the batch of ", batch_);
  data_ = data;
  labels_ = labels;
  count_ = count;
  next_ = 0;
}

void MemoryData::Forward(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(data_, Where(), ": has no data; call Reset, in Python net.set_input_arrays");
  const int64_t size = channels_ * height_ * width_;
  ConvertElements(kFloat, data_ + next_ * size, top[0]->type(), top[0]->mutable_host_data(),
                  batch_ * size);
  ConvertElements(kFloat, labels_ + next_, kFloat, top[1]->mutable_host_data(), batch_);
  next_ = (next_ + batch_) % count_;
}

void RegisterMemoryDataLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 0;
  traits.min_top = traits.max_top = 2;
  traits.data = true;
  traits.backward = false;
  traits.float_tops = {1};
  traits.summary = "batches from arrays in memory";
  registry.Add<MemoryDataLayer>("MemoryData", traits);
}

}  // namespace caffe

#include "caffe/layers/memory_data_layer.hpp"

#include <cstring>

#include "caffe.pb.h"
#include "caffe/core/log.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

void MemoryData::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const MemoryDataParameter& parameter = layer_param().memory_data_param();
  if (parameter.dim_size() > 0) {
    shape_.assign(parameter.dim().begin(), parameter.dim().end());
  } else {
    shape_ = {parameter.batch_size(), parameter.channels(), parameter.height(), parameter.width()};
  }
  CAFFE_CHECK(ShapeCount(shape_) > 0, Where(), ": batch_size, channels, height and width must be ",
              "given and positive; they are ", ShapeString(shape_));
}

void MemoryData::Reshape(const BlobVec& bottom, const BlobVec& top) {
  top[0]->Reshape(shape_);
  top[1]->Reshape({shape_[0]});
}

void MemoryData::TakeRecordsOf(const HasRecords& other) {
  const auto* const layer = dynamic_cast<const MemoryData*>(&other);
  if (!layer || !layer->data_) return;
  Reset(layer->data_, layer->labels_, layer->count_, layer->owner_);
}

void MemoryData::Reset(const float* data, const float* labels, int64_t count,
                       std::shared_ptr<void> owner) {
  CAFFE_CHECK(data && labels, Where(), ": Reset needs data and labels");
  CAFFE_CHECK(count > 0 && count % batch_size() == 0, Where(), ": ", count,
              " items are not a positive multiple of the batch size ", batch_size());
  if (!data_ && layer_param().has_transform_param()) {
    log::Warning(Concat(Where(), ": transform_param is not applied to arrays; transform them ",
                        "before, as caffe.io.Transformer does"));
  }
  data_ = data;
  labels_ = labels;
  count_ = count;
  position_ = 0;
  owner_ = std::move(owner);
}

void MemoryData::Forward(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(data_, Where(), ": has no data; call Reset first");
  const int64_t values = batch_size() * item_count();
  ConvertElements(kFloat, data_ + position_ * item_count(), top[0]->type(),
                  top[0]->mutable_host_data(), values);
  std::memcpy(top[1]->mutable_host_data(), labels_ + position_, batch_size() * sizeof(float));
  position_ = (position_ + batch_size()) % count_;
}

void MemoryData::SetRunState(uint64_t seed, const std::vector<uint64_t>& values) {
  LayerBase::SetRunState(seed, values);
  const auto position = static_cast<int64_t>(values[0]);
  CAFFE_CHECK(position >= 0 && (count_ == 0 || (position < count_ && position % batch_size() == 0)),
              Where(), ": the saved position ", position, " does not fit ", count_,
              " items in batches of ", batch_size());
  position_ = position;
}

LayerFacts MemoryData::Facts() const {
  LayerFacts facts;
  facts.host = true;
  return facts;
}

void RegisterMemoryDataLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 0;
  traits.min_top = traits.max_top = 2;
  traits.data = true;
  traits.float_tops = {1};
  traits.backward_reads = Always({});
  traits.summary = "batches from arrays of the caller";
  registry.Add<MemoryDataLayer>("MemoryData", traits);
}

}  // namespace caffe

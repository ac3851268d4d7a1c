#pragma once

#include <cstdint>

#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// Batches from arrays in memory, in order and from the start again after the end.
// top 0: (batch_size, channels, height, width); top 1: labels (batch_size), float.
// memory_data_param: batch_size, channels, height, width. Types: float kinds.
class MemoryData : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec&, const std::vector<bool>&, const BlobVec&) override {}

  // `data` holds `count` items of channels * height * width, `labels` one number each; both are
  // borrowed and read in every forward. Throws if count is no positive multiple of the batch size.
  void Reset(const float* data, const float* labels, int64_t count);
  int64_t batch_size() const { return batch_; }
  int64_t channels() const { return channels_; }
  int64_t height() const { return height_; }
  int64_t width() const { return width_; }

 private:
  int64_t batch_ = 0, channels_ = 0, height_ = 0, width_ = 0;
  const float* data_ = nullptr;
  const float* labels_ = nullptr;
  int64_t count_ = 0, next_ = 0;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class MemoryDataLayer final : public Layer<Dtype, MItype, MOtype, MemoryData> {
  using Layer<Dtype, MItype, MOtype, MemoryData>::Layer;
};

}  // namespace caffe

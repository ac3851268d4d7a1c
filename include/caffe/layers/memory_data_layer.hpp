#pragma once

#include "caffe/layer/has_records.hpp"
#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// Batches from arrays of the caller in order; after the last one the first follows.
// top 0: [batch_size, channels, height, width]; top 1: labels [batch_size], always float.
// memory_data_param: batch_size, channels, height, width; or dim, the whole shape with the batch
//   first. transform_param is ignored with a warning.
// Types: float kinds.
class MemoryData : public LayerBase, public HasRecords {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec&, const std::vector<bool>&, const BlobVec&) override {}
  std::vector<uint64_t> RunState() const override { return {static_cast<uint64_t>(position_)}; }
  LayerFacts Facts() const override;
  int64_t records() const override { return count_ > 0 ? count_ : kUnknown; }
  void TakeRecordsOf(const HasRecords& other) override;
  void SetRunState(uint64_t seed, const std::vector<uint64_t>& values) override;

  // Sets `count` items of item_count() values and as many labels, read until the next Reset. They
  // are borrowed, or kept alive by `owner`. Throws if count is not a positive multiple of
  // batch_size().
  void Reset(const float* data, const float* labels, int64_t count,
             std::shared_ptr<void> owner = nullptr);
  int64_t batch_size() const { return shape_[0]; }
  int64_t item_count() const { return ShapeCount(shape_, 1); }
  const Shape& shape() const { return shape_; }

 private:
  Shape shape_;
  const float* data_ = nullptr;
  const float* labels_ = nullptr;
  int64_t count_ = 0, position_ = 0;
  std::shared_ptr<void> owner_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class MemoryDataLayer final : public Layer<Dtype, MItype, MOtype, MemoryData> {
  using Layer<Dtype, MItype, MOtype, MemoryData>::Layer;
};

}  // namespace caffe

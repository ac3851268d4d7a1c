#pragma once

#include <cstdint>

#include "caffe/data/data_source.hpp"
#include "caffe/data/prefetcher.hpp"
#include "caffe/data/transformer.hpp"
#include "caffe/layer/has_records.hpp"
#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// Records of a database in batches, endlessly: the first record follows the last. A thread reads
// batches ahead; it transforms records, and decodes images in them (JPEG, PNG), on several threads,
// whose number does not change the result.
// top 0: (batch_size, channels, height, width). Records of a batch have one shape (after the crop);
//   batches may differ.
// top 1 (optional): (batch_size), the labels, float.
// data_param: source, batch_size, backend (LMDB; BVLC's default LEVELDB is an error), prefetch (4
// batches), rand_skip (up to this many records are left out at the start). transform_param: see
// Transformer; random choices depend on the layer's seed and the number of records read so far.
// Types: float kinds.
class Data : public LayerBase, public HasRecords {
 public:
  using LayerBase::LayerBase;
  // Opens the database once: its position is kept when the layer moves to another device.
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec&, const std::vector<bool>&, const BlobVec&) override {}
  LayerFacts Facts() const override;
  int64_t records() const override { return source_->count() < 0 ? kUnknown : source_->count(); }
  // Records skipped at the start, records delivered.
  std::vector<uint64_t> RunState() const override { return {skipped_, given_}; }
  void SetRunState(uint64_t seed, const std::vector<uint64_t>& values) override;

 private:
  // Starts the thread after `skipped` records of the database and `given` ones of this layer.
  void StartAt(uint64_t skipped, uint64_t given);
  // Reads the next record; the first one follows the last.
  void ReadRecord(Datum* datum);
  void FillBatch(Prefetcher::Batch* batch);

  std::unique_ptr<DataSource> source_;
  std::unique_ptr<Transformer> transformer_;
  Shape shape_;  // of top 0
  DataType type_;
  bool labels_ = false;
  int threads_ = 1;
  uint64_t skipped_ = 0, given_ = 0;
  // Used by the thread:
  uint64_t records_ = 0;
  std::vector<float> pixels_;
  // The last member, so that the thread ends before the objects that it uses.
  std::unique_ptr<Prefetcher> prefetcher_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class DataLayer final : public Layer<Dtype, MItype, MOtype, Data> {
  using Layer<Dtype, MItype, MOtype, Data>::Layer;
};

}  // namespace caffe

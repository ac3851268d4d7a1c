#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "caffe/data/item_order.hpp"
#include "caffe/data/item_source.hpp"
#include "caffe/data/prefetcher.hpp"
#include "caffe/layer/has_records.hpp"
#include "caffe/layer/layer.hpp"

namespace caffe {

// A layer without bottoms that gives the items of an ItemSource in batches, endlessly. A thread
// reads batches ahead. With n ranks, rank r reads the items r, r + n, r + 2n, … of one order in
// phase TRAIN, and the batches r, r + n, … in phase TEST, which are those of one rank. A layer of
// this kind defines ReadSettings and Open, and its source reads items; see
// tests/solver/replica_data_test.cpp.
class SourceLayer : public LayerBase, public HasRecords {
 public:
  struct Settings {
    uint32_t batch_size = 1;
    uint32_t prefetch = 4;  // batches that are read ahead
    bool shuffle = false;
    ItemOrder::Numbers numbers = ItemOrder::Numbers::kByOrder;
    // Up to this many items are left out at the start: a random number. Unset: the layer has no
    // such parameter, and its run state is one number.
    std::optional<uint32_t> rand_skip;
  };

  using LayerBase::LayerBase;
  // Opens the source once: the position is kept when the layer moves to another device.
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) final;
  void Reshape(const BlobVec& bottom, const BlobVec& top) final;
  void Forward(const BlobVec& bottom, const BlobVec& top) final;
  void Backward(const BlobVec&, const std::vector<bool>&, const BlobVec&) final {}
  LayerFacts Facts() const final;
  int64_t records() const final { return order_->count(); }
  // Items left out at the start (with rand_skip); items that all replicas have delivered.
  std::vector<uint64_t> RunState() const final;
  void SetRunState(uint64_t seed, const std::vector<uint64_t>& values) final;
  void SetReplica(const Replica& replica) final;

 protected:
  // Called before Open; checks the parameters.
  virtual Settings ReadSettings() const = 0;
  // The errors of these calls and of the source need not name the layer.
  virtual std::unique_ptr<ItemSource> Open(const BlobVec& top) = 0;

 private:
  // Starts the thread at the position of skipped_ and given_.
  void Start();
  void Fill(DataBatch* batch);

  Settings settings_;
  std::unique_ptr<ItemSource> source_;
  std::optional<ItemOrder> order_;
  std::vector<DataType> types_;  // of the tops
  std::vector<Shape> shapes_;
  uint64_t skipped_ = 0, given_ = 0;
  uint64_t next_ = 0;  // used by the thread: the number of the next item
  // The last member, so that the thread ends before the objects that it uses.
  std::unique_ptr<Prefetcher> prefetcher_;
};

}  // namespace caffe

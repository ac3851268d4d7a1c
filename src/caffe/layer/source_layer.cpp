#include "caffe/layer/source_layer.hpp"

#include <climits>
#include <cstring>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/core/random.hpp"
#include "caffe/layer/layer_facts.hpp"

namespace caffe {
namespace {

// A counter that no item uses.
constexpr uint64_t kSkipCounter = ~uint64_t{0};

void CheckPositive(const char* what, uint32_t value) {
  CAFFE_CHECK(value > 0 && value <= INT_MAX, what, " is ", value, "; it must be at least 1");
}

}  // namespace

void SourceLayer::LayerSetUp(const BlobVec&, const BlobVec& top) {
  if (source_) return;
  try {
    settings_ = ReadSettings();
    CheckPositive("batch_size", settings_.batch_size);
    CheckPositive("prefetch", settings_.prefetch);
    std::unique_ptr<ItemSource> source = Open(top);
    source->SetSeed(context().seed);
    order_.emplace(source->Groups(), settings_.shuffle, settings_.numbers);
    order_->SetSeed(context().seed);
    if (settings_.shuffle) log::Info("Shuffling data");
    if (settings_.rand_skip.value_or(0) > 0) {
      skipped_ = Philox(kSkipCounter, context().seed)[0] % *settings_.rand_skip;
      log::Info(Concat("Skipping first ", skipped_, " data points."));
    }
    shapes_ = source->Shapes(order_->At(skipped_));
    source_ = std::move(source);
  } catch (...) {
    RethrowIn(Where());
  }
  for (Shape& shape : shapes_) shape.insert(shape.begin(), settings_.batch_size);
  for (const BlobBase* blob : top) types_.push_back(blob->type());
  std::string size;
  for (const int64_t extent : shapes_[0])
    size += (size.empty() ? "" : ",") + std::to_string(extent);
  log::Info("output data size: " + size);
  Start();
}

void SourceLayer::Start() {
  prefetcher_.reset();
  const auto rank = static_cast<uint64_t>(context().replica.rank);
  next_ = given_ + (phase() == TRAIN ? rank : rank * settings_.batch_size);
  const auto depth = static_cast<int>(settings_.prefetch);
  prefetcher_ = std::make_unique<Prefetcher>(depth, [this](DataBatch* batch) {
    try {
      Fill(batch);
    } catch (...) {
      RethrowIn(Where());
    }
  });
}

void SourceLayer::Fill(DataBatch* batch) {
  std::vector<BatchItem> items(settings_.batch_size);
  const auto ranks = static_cast<uint64_t>(context().replica.ranks);
  for (BatchItem& item : items) {
    item = {order_->At(skipped_ + next_), next_};
    next_ += phase() == TRAIN ? ranks : 1;
  }
  if (phase() == TEST) next_ += (ranks - 1) * settings_.batch_size;
  batch->resize(types_.size());
  for (size_t i = 0; i < types_.size(); ++i) (*batch)[i].type = types_[i];
  source_->Read(items, batch);
}

void SourceLayer::Reshape(const BlobVec&, const BlobVec& top) {
  for (size_t i = 0; i < top.size(); ++i) top[i]->Reshape(shapes_[i]);
}

void SourceLayer::Forward(const BlobVec& bottom, const BlobVec& top) {
  const DataBatch& batch = prefetcher_->Front();
  for (size_t i = 0; i < top.size(); ++i) shapes_[i] = batch[i].shape;
  Reshape(bottom, top);  // the caller may have reshaped the tops
  for (size_t i = 0; i < top.size(); ++i) {
    std::memcpy(top[i]->overwrite_host_data(), batch[i].bytes.data(), batch[i].bytes.size());
  }
  prefetcher_->Pop();
  given_ += uint64_t{settings_.batch_size} * static_cast<uint64_t>(context().replica.ranks);
}

std::vector<uint64_t> SourceLayer::RunState() const {
  if (!settings_.rand_skip) return {given_};
  return {skipped_, given_};
}

void SourceLayer::SetRunState(uint64_t seed, const std::vector<uint64_t>& values) {
  for (const uint64_t value : values) {
    CAFFE_CHECK(value < ItemOrder::kMost, Where(), ": the saved position is invalid");
  }
  LayerBase::SetRunState(seed, values);
  prefetcher_.reset();  // its thread uses the source
  given_ = values.back();
  if (settings_.rand_skip) skipped_ = values.front();
  source_->SetSeed(seed);
  order_->SetSeed(seed);
  Start();
}

void SourceLayer::SetReplica(const Replica& replica) {
  if (replica == context().replica) return;
  prefetcher_.reset();  // its thread uses the replica
  LayerBase::SetReplica(replica);
  Start();
}

LayerFacts SourceLayer::Facts() const {
  LayerFacts facts;
  facts.host = true;
  facts.shapes_from_data = source_->shapes_vary();
  return facts;
}

}  // namespace caffe

#include "caffe/layers/data_layer.hpp"

#include <climits>
#include <cstring>
#include <filesystem>
#include <future>

#include "caffe.pb.h"
#include "caffe/core/log.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/core/random.hpp"
#include "caffe/data/databases.hpp"
#include "caffe/data/parallel.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// A counter that no record uses.
constexpr uint64_t kSkipCounter = ~uint64_t{0};

struct Record {
  Datum datum;
  int64_t place;
  std::string key;
};

void CheckParameter(const DataParameter& parameter) {
  CAFFE_CHECK(!parameter.source().empty(), "data_param has no source");
  CAFFE_CHECK(parameter.batch_size() > 0 && parameter.batch_size() <= INT_MAX,
              "data_param: batch_size is ", parameter.batch_size(), "; it must be at least 1");
  CAFFE_CHECK(parameter.prefetch() > 0 && parameter.prefetch() <= INT_MAX,
              "data_param: prefetch is ", parameter.prefetch(), "; it must be at least 1");
  if (parameter.backend() == DataParameter::LMDB) return;
  std::error_code error;
  CAFFE_CHECK(!std::filesystem::exists(parameter.source() + "/data.mdb", error), parameter.source(),
              " is an LMDB, but data_param says ",
              parameter.has_backend() ? "backend: LEVELDB" : "no backend, which means LEVELDB",
              "; set `backend: LMDB`");
}

}  // namespace

void Data::LayerSetUp(const BlobVec&, const BlobVec& top) {
  if (prefetcher_) return;
  const DataParameter& parameter = layer_param().data_param();
  Datum first;
  try {
    CheckParameter(parameter);
    transformer_ = std::make_unique<Transformer>(layer_param().transform_param(), phase() == TRAIN,
                                                 context().seed);
    const bool lmdb = parameter.backend() == DataParameter::LMDB;
    source_ = OpenDatabase(lmdb ? "lmdb" : "leveldb", parameter.source());
    ReadRecord(&first);
    transformer_->Decode(&first);
    shape_ = transformer_->OutputShape(first);
  } catch (...) {
    RethrowIn(Concat(Where(), source_ ? ": " + parameter.source() + ", first record" : ""));
  }
  shape_.insert(shape_.begin(), parameter.batch_size());
  log::Info(
      Concat("output data size: ", shape_[0], ",", shape_[1], ",", shape_[2], ",", shape_[3]));
  type_ = top[0]->type();
  labels_ = top.size() > 1;
  threads_ = DataThreads();
  uint64_t skip = 0;
  if (parameter.rand_skip() > 0) {
    skip = Philox(kSkipCounter, context().seed)[0] % parameter.rand_skip();
    log::Info(Concat("Skipping first ", skip, " data points."));
  }
  StartAt(skip, 0);
}

void Data::StartAt(uint64_t skipped, uint64_t given) {
  prefetcher_.reset();
  skipped_ = skipped;
  given_ = records_ = given;
  source_->Rewind();
  uint64_t ahead = skipped + given;
  if (source_->count() > 0) ahead %= static_cast<uint64_t>(source_->count());
  for (uint64_t i = 0; i < ahead; ++i) {
    if (!source_->Skip()) {
      source_->Rewind();
      source_->Skip();
    }
  }
  const auto depth = static_cast<int>(layer_param().data_param().prefetch());
  prefetcher_ = std::make_unique<Prefetcher>(depth, [this](Prefetcher::Batch* batch) {
    try {
      FillBatch(batch);
    } catch (...) {
      RethrowIn(Where());
    }
  });
}

void Data::SetRunState(uint64_t seed, const std::vector<uint64_t>& values) {
  LayerBase::SetRunState(seed, values);
  prefetcher_.reset();  // its thread uses the transformer
  transformer_ =
      std::make_unique<Transformer>(layer_param().transform_param(), phase() == TRAIN, seed);
  StartAt(values[0], values[1]);
}

void Data::Reshape(const BlobVec&, const BlobVec& top) {
  top[0]->Reshape(shape_);
  if (top.size() > 1) top[1]->Reshape({shape_[0]});
}

void Data::ReadRecord(Datum* datum) {
  if (source_->Next(datum)) return;
  log::Info("Restarting data prefetching from start.");
  source_->Rewind();
  CAFFE_CHECK(source_->Next(datum), "the database has no records");
}

void Data::FillBatch(Prefetcher::Batch* batch) {
  const int64_t items = layer_param().data_param().batch_size();
  if (labels_) batch->labels.resize(items);
  std::vector<Record> records(items);
  bool encoded = false;
  for (Record& record : records) {
    ReadRecord(&record.datum);
    record.place = source_->position() - 1;
    record.key = source_->key();
    encoded |= record.datum.encoded();
  }
  // The first record decides the shape of the batch; other threads wait for it.
  Shape first_shape;
  float* pixels = nullptr;
  std::packaged_task<void(Datum*)> begin([&](Datum* first) {
    transformer_->Decode(first);
    first_shape = transformer_->OutputShape(*first);
    batch->shape = first_shape;
    batch->shape.insert(batch->shape.begin(), items);
    const int64_t count = ShapeCount(batch->shape);
    batch->data.resize(count * type_.bytes());
    pixels = reinterpret_cast<float*>(batch->data.data());
    if (type_ != kFloat) {
      pixels_.resize(count);
      pixels = pixels_.data();
    }
  });
  const std::shared_future<void> begun = begin.get_future().share();
  // Copying pixels takes less time than starting threads.
  RunInParallel(encoded ? threads_ : 1, items, [&](int64_t i) {
    // Taken out of records, so that few decoded images are in memory at a time.
    Datum datum = std::move(records[i].datum);
    const bool was_encoded = datum.encoded();
    try {
      if (i == 0) {
        begin(&datum);
      } else {
        transformer_->Decode(&datum);
      }
      begun.get();
      const Shape shape = transformer_->OutputShape(datum);
      CAFFE_CHECK(
          shape == first_shape, "the record's shape is ", ShapeString(shape),
          ", but that of the batch's first record is ", ShapeString(first_shape),
          "; all records of a batch must have one shape (",
          was_encoded && shape[0] != first_shape[0] ? "force_color or force_gray" : "crop_size",
          " or batch_size: 1 helps)");
      transformer_->Transform(datum, records_ + i, pixels + i * ShapeCount(shape));
    } catch (...) {
      RethrowIn(Concat(layer_param().data_param().source(), ", record ", records[i].place, " (key ",
                       records[i].key, ")"));
    }
    if (labels_) batch->labels[i] = static_cast<float>(datum.label());
  });
  records_ += items;
  if (type_ != kFloat) {
    ConvertElements(kFloat, pixels, type_, batch->data.data(), ShapeCount(batch->shape));
  }
}

void Data::Forward(const BlobVec& bottom, const BlobVec& top) {
  const Prefetcher::Batch& batch = prefetcher_->Front();
  shape_ = batch.shape;
  Reshape(bottom, top);  // the caller may have reshaped the tops
  std::memcpy(top[0]->mutable_host_data(), batch.data.data(), batch.data.size());
  if (top.size() > 1) {
    std::memcpy(top[1]->mutable_host_data(), batch.labels.data(),
                batch.labels.size() * sizeof(float));
  }
  prefetcher_->Pop();
  given_ += shape_[0];
}

LayerFacts Data::Facts() const {
  LayerFacts facts;
  facts.host = facts.shapes_from_data = true;
  return facts;
}

void RegisterDataLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 0;
  traits.max_top = 2;
  traits.data = true;
  traits.float_tops = {1};
  traits.backward_reads = Always({});
  traits.summary = "records of a database, with their labels";
  registry.Add<DataLayer>("Data", traits);
}

}  // namespace caffe

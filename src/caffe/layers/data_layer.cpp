#include <filesystem>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/data/databases.hpp"
#include "caffe/data/datum_source.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/source_layer.hpp"

namespace caffe {
namespace {

class DatabaseRecords final : public DatumSource {
 public:
  DatabaseRecords(const LayerParameter& parameter, bool training)
      : DatumSource(parameter.transform_param(), training), path_(parameter.data_param().source()) {
    const bool lmdb = parameter.data_param().backend() == DataParameter::LMDB;
    database_ = OpenDatabase(lmdb ? "lmdb" : "leveldb", path_);
  }
  std::vector<int64_t> Groups() const override { return {database_->count()}; }

 private:
  void Fetch(int64_t index, Record* record) override {
    if (index < database_->position()) {
      log::Info("Restarting data prefetching from start.");
      database_->Rewind();
    }
    while (database_->position() < index && database_->Skip()) {
    }
    CAFFE_CHECK(database_->Next(&record->datum), path_, " has no record ", index);
    record->where = Concat(path_, ", record ", index, " (key ", database_->key(), ")");
    record->encoded = record->datum.encoded();
  }
  void Decode(Record* record) const override { transformer().Decode(&record->datum); }

  std::string path_;
  std::unique_ptr<DataSource> database_;
};

}  // namespace

// Records of a database in batches. Images in records (JPEG, PNG) are decoded.
// top 0: (batch_size, channels, height, width). Records of a batch have one shape (after the crop);
//   batches may differ.
// top 1 (optional): (batch_size), the labels, float.
// data_param: source, batch_size, backend (LMDB; BVLC's default LEVELDB is an error), prefetch (4
// batches), rand_skip (up to this many records are left out at the start). transform_param: see
// Transformer; random choices depend on the layer's seed and the number of records read so far.
// Types: float kinds.
class Data : public SourceLayer {
 public:
  using SourceLayer::SourceLayer;

 protected:
  Settings ReadSettings() const override {
    const DataParameter& parameter = layer_param().data_param();
    CAFFE_CHECK(!parameter.source().empty(), "data_param has no source");
    Settings settings;
    settings.batch_size = parameter.batch_size();
    settings.prefetch = parameter.prefetch();
    settings.rand_skip = parameter.rand_skip();
    return settings;
  }
  std::unique_ptr<ItemSource> Open(const BlobVec&) override {
    const DataParameter& parameter = layer_param().data_param();
    std::error_code error;
    CAFFE_CHECK(parameter.backend() == DataParameter::LMDB ||
                    !std::filesystem::exists(parameter.source() + "/data.mdb", error),
                parameter.source(), " is an LMDB, but data_param says ",
                parameter.has_backend() ? "backend: LEVELDB" : "no backend, which means LEVELDB",
                "; set `backend: LMDB`");
    return std::make_unique<DatabaseRecords>(layer_param(), phase() == TRAIN);
  }
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class DataLayer final : public Layer<Dtype, MItype, MOtype, Data> {
  using Layer<Dtype, MItype, MOtype, Data>::Layer;
};

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

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "caffe/calibration/comparison.hpp"
#include "caffe/calibration/quantize_net.hpp"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/runtime.hpp"
#include "caffe/graph/passes.hpp"
#include "caffe/io/unknown_names.hpp"
#include "caffe/layer/has_records.hpp"
#include "caffe/layer/layer_traits.hpp"
#include "test_nets.hpp"

namespace caffe {
namespace {

struct Source {
  std::string layer;      // "layer 'data' (HDF5Data)"
  std::vector<int> tops;  // blobs
  int64_t records;        // see HasRecords
  int64_t size;           // of a batch: the extent of axis 0 of top 0
};

// Finds where batches begin again.
class SeenItems {
 public:
  // How many items of the next batch come before the data begin again: all of them; or none, if all
  // were in earlier batches; or those before the first items of the first batch.
  int64_t Add(const std::vector<std::string>& items) {
    std::vector<size_t> hashes;
    for (const std::string& item : items) hashes.push_back(std::hash<std::string>()(item));
    if (first_.empty()) {
      first_ = hashes;
    } else if (std::all_of(hashes.begin(), hashes.end(),
                           [&](size_t hash) { return seen_.count(hash) > 0; })) {
      return 0;
    } else {
      for (auto rest = hashes.begin() + 1; rest != hashes.end(); ++rest) {
        if (std::equal(rest, hashes.end(), first_.begin())) return rest - hashes.begin();
      }
    }
    seen_.insert(hashes.begin(), hashes.end());
    return static_cast<int64_t>(hashes.size());
  }

 private:
  std::vector<size_t> first_;  // of the first batch
  std::unordered_set<size_t> seen_;
};

}  // namespace

struct DataLayerBatches::State {
  NetParameter model;
  Device* device;
  const Net* source;
  bool whole = false;  // recurrent layers cannot read a part of a batch
  std::unique_ptr<Net> net;
  std::vector<Source> sources;
  int64_t next = 0;
  // The items of sources whose number of records is unknown, by the index of the source, and how
  // many items of each batch are new.
  std::map<size_t, SeenItems> seen;
  std::vector<int64_t> fresh;

  void MakeNet() {
    net = TestNet(model, device);
    next = 0;
    for (size_t i = 0; source && i < net->layers().size(); ++i) {
      const std::string& name = net->layer_names()[i];
      auto* const mine = dynamic_cast<HasRecords*>(net->layers()[i].get());
      if (!mine || !source->has_layer(name)) continue;
      const auto* const given = dynamic_cast<const HasRecords*>(source->LayerByName(name).get());
      if (given) mine->TakeRecordsOf(*given);
    }
  }
  // How many items of a batch are not items of an earlier batch, by the numbers of records; of a
  // source with batches of another size, all or none.
  int64_t KnownItems(int64_t index) const {
    int64_t items = size();
    for (const Source& source : sources) {
      if (source.records < 0) continue;
      const int64_t left = source.records - index * source.size;
      const bool part = source.size == size() && !whole;
      if (left < source.size) items = std::min(items, part ? std::max<int64_t>(left, 0) : 0);
    }
    return items;
  }
  int64_t size() const { return sources.empty() ? 0 : sources.front().size; }
  int64_t FreshItems();
};

// The items of the current batch that sources without a number of records have not given before.
int64_t DataLayerBatches::State::FreshItems() {
  int64_t items = size();
  for (size_t s = 0; s < sources.size(); ++s) {
    const Source& source = sources[s];
    if (source.records != HasRecords::kUnknown) continue;
    std::vector<std::string> rows(source.size);
    for (const int top : source.tops) {
      const BlobBase& blob = *net->blobs()[top];
      const bool rowwise = blob.num_axes() > 0 && blob.shape(0) == source.size;
      const std::vector<float> values = RealValues(blob);
      const int64_t length =
          static_cast<int64_t>(values.size()) / (rowwise ? source.size : int64_t{1});
      for (int64_t i = 0; i < source.size; ++i) {
        rows[i].append(reinterpret_cast<const char*>(values.data() + (rowwise ? i * length : 0)),
                       static_cast<size_t>(length) * sizeof(float));
      }
    }
    const int64_t fresh = seen[s].Add(rows);
    const bool part = source.size == size() && !whole;
    if (fresh < source.size) items = std::min(items, part ? fresh : 0);
    if (fresh < source.size) {
      log::Warning(Concat(source.layer, " begins again after ", next * source.size + fresh,
                          " records: its data end there"));
    }
  }
  return items;
}

DataLayerBatches::DataLayerBatches(const NetParameter& model, Device* device, const Net* source)
    : state_(std::make_shared<State>()) {
  state_->source = source;
  state_->model = Layers(*TestNet(model, device));
  state_->device = device;
  auto* layers = state_->model.mutable_layer();
  state_->whole = std::any_of(layers->begin(), layers->end(), [](const LayerParameter& layer) {
    return layer.has_recurrent_param();
  });
  for (int i = layers->size(); i-- > 0;) {
    if (!IsDataLayer(layers->Get(i))) layers->DeleteSubrange(i, 1);
  }
  state_->model.clear_data_type();
  state_->MakeNet();
  const Net& net = *state_->net;
  for (int i = 0; i < static_cast<int>(net.layers().size()); ++i) {
    const LayerBase& layer = *net.layers()[i];
    if (net.top_ids(i).empty()) continue;
    const auto* const known = dynamic_cast<const HasRecords*>(&layer);
    const BlobBase& top = *net.blobs()[net.top_ids(i)[0]];
    state_->sources.push_back({Concat("layer '", layer.name(), "' (", layer.type(), ")"),
                               net.top_ids(i), known ? known->records() : HasRecords::kUnknown,
                               top.num_axes() > 0 ? std::max<int64_t>(top.shape(0), 1) : 1});
  }
}

DataLayerBatches::~DataLayerBatches() = default;

int64_t DataLayerBatches::batches() const {
  int64_t all = -1;
  for (const Source& source : state_->sources) {
    if (source.records == HasRecords::kUnknown) return -1;
    if (source.records < 0) continue;
    const int64_t count = source.size == state_->size() && !state_->whole
                              ? (source.records + source.size - 1) / source.size
                              : source.records / source.size;
    all = all < 0 ? count : std::min(all, count);
  }
  return all;
}

void DataLayerBatches::Divide(bool default_number, QuantizeOptions* options) const {
  const int64_t all = batches();
  int64_t& calibrate = options->calibration_batches;
  int64_t& compare = options->held_out_batches;
  if (all < 0) {
    if (compare < 0) compare = calibrate;
    return;
  }
  if (default_number && all <= calibrate) calibrate = std::max<int64_t>(all / 2, 1);
  if (calibrate >= all) {
    for (const Source& source : state_->sources) {
      if (source.records < 0 || (source.records + source.size - 1) / source.size > all) continue;
      CAFFE_THROW(source.layer, " has ", source.records, " records, which are ", all,
                  all == 1 ? " batch of " : " batches of ", source.size,
                  ": none are left to compare with the float net if ", calibrate,
                  " are used to calibrate");
    }
    CAFFE_THROW("the data layers have ", all, " batches: none are left to compare with the float ",
                "net if ", calibrate, " are used to calibrate");
  }
  const int64_t rest = all - calibrate;
  if (compare > rest) {
    log::Warning(Concat("the data layers have ", all, " batches: ", rest, " of them, not ", compare,
                        ", are left to compare with the float net"));
  }
  compare = compare < 0 ? std::min(calibrate, rest) : std::min(compare, rest);
  options->batches = all;
}

bool DataLayerBatches::Read(int64_t index, Batch* batch) {
  State& state = *state_;
  if (index < state.next) state.MakeNet();
  for (; state.next <= index; ++state.next) {
    const auto known = static_cast<int64_t>(state.fresh.size());
    const bool ended = known > 0 && state.fresh.back() < state.size();
    if (state.KnownItems(state.next) == 0 || (ended && state.next >= known)) return false;
    state.net->Forward();
    if (state.next == known) state.fresh.push_back(state.FreshItems());
  }
  const int64_t items = std::min(state.KnownItems(index), state.fresh[index]);
  if (items == 0) return false;
  batch->images = true;
  for (const std::string& name : state.net->blob_names()) {
    const BlobBase& blob = *state.net->BlobByName(name);
    std::vector<float>& values = batch->values[name];
    values = RealValues(blob);
    Shape& shape = batch->shapes[name];
    shape = blob.shape();
    if (items == state.size() || shape.empty() || shape[0] != state.size()) continue;
    // The other items are old ones. The batch is filled with the new ones.
    values.resize(values.size() / state.size() * items);
    shape[0] = items;
  }
  return true;
}

bool HasDataLayers(const NetParameter& model) {
  const NetParameter layers = Layers(*TestNet(model, Runtime::Get().cpu()));
  for (const LayerParameter& layer : layers.layer()) {
    if (IsDataLayer(layer) && !TraitsOf(layer.type()).input) return true;
  }
  return false;
}

std::string ImageInput(const NetParameter& model, std::vector<int64_t>* shape) {
  const auto net = TestNet(model, Runtime::Get().cpu());
  const std::vector<int>& inputs = net->input_blob_indices();
  CAFFE_CHECK(inputs.size() == 1, NetLabel(net->name()), " has ", inputs.size(),
              " inputs; a list of images fills one");
  *shape = net->blobs()[inputs[0]]->shape();
  return net->blob_names()[inputs[0]];
}

}  // namespace caffe

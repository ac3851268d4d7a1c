#include "caffe/quant/stored_ranges.hpp"

#include <algorithm>
#include <set>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/repeated_names.hpp"
#include "caffe/core/type_registry.hpp"
#include "caffe/quant/packed_parameter.hpp"

namespace caffe {
namespace {

// Splits "<stem><mark><number><tail>"; returns false if the name is not of that form.
bool SplitNumber(const std::string& name, const std::string& mark, const std::string& tail,
                 std::string* stem, int* number) {
  if (name.size() < tail.size() ||
      name.compare(name.size() - tail.size(), tail.size(), tail) != 0) {
    return false;
  }
  const std::string head = name.substr(0, name.size() - tail.size());
  const size_t at = head.rfind(mark);
  if (at == std::string::npos) return false;
  const std::string digits = head.substr(at + mark.size());
  if (digits.empty() || digits.size() > 6 ||
      !std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return false;
  }
  *stem = head.substr(0, at);
  *number = std::stoi(digits);
  return true;
}

// Resolves the fork's names of blobs and parameters, given the layers of nets.
class ForkNames {
 public:
  void Add(const NetParameter& net) {
    const std::vector<std::string> unique = UniqueLayerNames(net);
    std::map<std::string, int> last;  // the last layer that makes a top
    for (int i = 0; i < net.layer_size(); ++i) {
      for (const std::string& top : net.layer(i).top()) last[top] = i;
    }
    for (int i = 0; i < net.layer_size(); ++i) {
      const LayerParameter& layer = net.layer(i);
      layers_.insert(unique[i]);
      for (int t = 0; t < layer.top_size(); ++t) {
        const std::string& top = layer.top(t);
        const bool changed = last[top] > i;
        splits_.emplace(Concat(top, "_", layer.name(), "_", t),
                        changed ? top + "@" + unique[i] : top);
      }
    }
  }
  bool IsLayer(const std::string& name) const { return layers_.count(name) > 0; }
  // The canonical name of a blob.
  std::string Canonical(const std::string& name) const {
    std::string stem;
    int copy;
    if (!SplitNumber(name, "_split_", "", &stem, &copy)) return name;
    const auto found = splits_.find(stem);
    return found == splits_.end() ? name : found->second;
  }

 private:
  std::set<std::string> layers_;
  std::map<std::string, std::string> splits_;  // without "_split_<k>"
};

bool IsCoded(const BlobProto& blob) { return blob.has_packed_data() && StoresCodes(blob); }

}  // namespace

bool StoresCodes(const BlobProto& blob) {
  if (blob.data_type() != CAFFE_CUSTOM) {
    return blob.data_type() == CAFFE_INT8_QUANTIZED || blob.data_type() == CAFFE_INT16_QUANTIZED;
  }
  const auto type = FindDataType(blob.data_type_name());
  return type && type->is_scaled();
}

std::vector<std::string> UniqueLayerNames(const NetParameter& file) {
  std::vector<std::string> names;
  for (const LayerParameter& layer : file.layer()) names.push_back(layer.name());
  return UniqueNames(names);
}

std::string ParameterQuantizer(const std::string& layer, int index) {
  return Concat(layer, "_blobs_", index, "_quant");
}

std::string SharedExpertName(const std::string& name) {
  const std::string start = "/expert";
  std::string out;
  size_t copied = 0;
  for (size_t at = name.find(start); at != std::string::npos; at = name.find(start, at + 1)) {
    const size_t digits = at + start.size(), end = name.find_first_not_of("0123456789", digits);
    if (end == std::string::npos || name[end] != '/') continue;
    out += name.substr(copied, digits - copied);
    copied = end;
  }
  return out + name.substr(copied);
}

StoredRanges ReadRanges(const NetParameter& file, const NetParameter& net) {
  ForkNames names;
  names.Add(file);
  names.Add(net);
  StoredRanges ranges;
  for (const QuantizerParameter& entry : file.quantizer()) {
    const std::string& name = entry.name();
    // An entry without a range was never observed.
    if (!entry.has_observed_min() || !entry.has_observed_max()) continue;
    if (name.empty() && !entry.has_zone()) continue;
    const auto range = ReadRange(entry.has_zone() ? Concat("zone ", entry.zone()) : name, entry);
    if (!range) continue;
    if (entry.has_zone()) {
      ranges.zones[entry.zone()].Unite(range->whole);
      continue;
    }
    const std::string loss_tail = "_net_quant";
    std::string stem;
    int index;
    if (SplitNumber(name, "_blobs_", "_quant", &stem, &index) && names.IsLayer(stem)) {
      const auto [target, first] = ranges.parameters.try_emplace({stem, index}, *range);
      if (!first) target->second.whole.Unite(range->whole);
    } else if (name.size() > loss_tail.size() && name.ends_with(loss_tail) &&
               names.IsLayer(name.substr(0, name.size() - loss_tail.size()))) {
      continue;
    } else {
      ranges.blobs[names.Canonical(name)].Unite(range->whole);
    }
  }
  // Those of grouped experts, if the experts were observed apart: the union.
  std::map<std::string, Range> shared;
  for (const auto& [name, range] : ranges.blobs) {
    const std::string of_all = SharedExpertName(name);
    if (of_all == name || ranges.blobs.count(of_all)) continue;
    shared[of_all].Unite({range.low, range.high});
  }
  ranges.blobs.merge(shared);
  return ranges;
}

void CheckRangeNames(const NetParameter& net, const std::vector<std::string>& blobs) {
  std::set<std::string> known;
  NetParameter file;
  for (const std::string& blob : blobs) {
    CAFFE_CHECK(known.insert(blob).second, "net ", net.name(), ": two blobs, or two versions of a ",
                "blob that is changed in place, would store their ranges as '", blob,
                "'; give one of the blobs another name");
    QuantizerParameter* entry = file.add_quantizer();
    entry->set_name(blob);
    WriteRange(Range{0, 1}, entry);
  }
  const StoredRanges stored = ReadRanges(file, net);
  for (const std::string& blob : blobs) {
    CAFFE_CHECK(stored.blobs.count(blob), "net ", net.name(), ": a file cannot hold the range of ",
                "blob '", blob, "': the name means something else there, such as the range of a ",
                "layer's parameter; give the blob another name");
  }
}

bool HasCodedParameters(const NetParameter& file) {
  return std::any_of(file.layer().begin(), file.layer().end(), [](const LayerParameter& layer) {
    return std::any_of(layer.blobs().begin(), layer.blobs().end(), &IsCoded);
  });
}

const ChannelRanges& RangeOfCodes(const StoredRanges& ranges, const std::string& layer, int index,
                                  DataType type) {
  const auto found = ranges.parameters.find({layer, index});
  CAFFE_CHECK(found != ranges.parameters.end(), "layer '", layer, "', parameter ", index,
              " is stored as codes of ", type.name(), ", but the file has no valid range '",
              ParameterQuantizer(layer, index), "' for it");
  return found->second;
}

void DecodeParameters(NetParameter* file) {
  if (!HasCodedParameters(*file)) return;
  const StoredRanges ranges = ReadRanges(*file, NetParameter());
  const std::vector<std::string> names = UniqueLayerNames(*file);
  for (int l = 0; l < file->layer_size(); ++l) {
    LayerParameter& layer = *file->mutable_layer(l);
    for (int b = 0; b < layer.blobs_size(); ++b) {
      if (!IsCoded(layer.blobs(b))) continue;
      BlobProto* blob = layer.mutable_blobs(b);
      const DataType type = PackedType(*blob);
      const auto codes = std::make_shared<std::string>(std::move(*blob->mutable_packed_data()));
      int64_t count = static_cast<int64_t>(codes->size() / type.bytes());
      if (type.is_packed()) {
        count = 1;
        for (const int64_t extent : blob->shape().dim()) count *= extent;
        CAFFE_CHECK(type.FileBytes(count) == static_cast<int64_t>(codes->size()), "layer '",
                    names[l], "', parameter ", b, " has ", codes->size(), " bytes of codes, but ",
                    count, " elements");
      }
      blob->clear_packed_data();
      blob->clear_packed_diff();
      blob->clear_data_type();
      blob->clear_data_type_name();
      const PackedParameter packed(type, count, {codes, codes->data()},
                                   RangeOfCodes(ranges, names[l], b, type),
                                   Concat("layer '", names[l], "', parameter ", b));
      blob->mutable_data()->Resize(static_cast<int>(count), 0);
      packed.Decode(0, count, blob->mutable_data()->mutable_data());
    }
  }
}

}  // namespace caffe

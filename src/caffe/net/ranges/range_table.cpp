#include "range_table.hpp"

#include <algorithm>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/io/unknown_names.hpp"
#include "caffe/quant/layer_ranges.hpp"
#include "caffe/quant/stored_ranges.hpp"

namespace caffe {
namespace {

DataType PseudoType(const std::string& where, DataTypeProto type) {
  CAFFE_CHECK(type == CAFFE_INT8_QUANTIZED || type == CAFFE_INT16_QUANTIZED, where,
              ": pseudo_target_type ", DataTypeProto_Name(type),
              " is not supported (known: ", "CAFFE_INT8_QUANTIZED and CAFFE_INT16_QUANTIZED)");
  return type == CAFFE_INT8_QUANTIZED ? kQuant8 : kQuant16;
}

bool HasLimits(const QuantizerParameter& quantizer) {
  return quantizer.has_min_in() || quantizer.has_max_in() || quantizer.has_min_out() ||
         quantizer.has_max_out();
}

// The range of an entry, widened if its ends are not the first and the last code.
Range ReadLimited(const QuantizerParameter& quantizer, const Range& range, DataType type) {
  if (!HasLimits(quantizer)) return range;
  const TypeInfo& info = type.info();
  // The limits before and after a conversion are those of one range.
  const auto limit = [](bool has_in, double in, bool has_out, double out, double otherwise) {
    CAFFE_CHECK(!has_in || !has_out || in == out, "the limits of codes in and out, ", in, " and ",
                out, ", differ, but they belong to one range; give one of them");
    return has_in ? in : has_out ? out : otherwise;
  };
  return LimitedRange(range,
                      limit(quantizer.has_min_in(), quantizer.min_in(), quantizer.has_min_out(),
                            quantizer.min_out(), info.code_min),
                      limit(quantizer.has_max_in(), quantizer.max_in(), quantizer.has_max_out(),
                            quantizer.max_out(), info.code_max),
                      type);
}

void CheckQuantizers(const LayerParameter& layer) {
  const std::string where = Concat(layer.name(), " (", layer.type(), "): ");
  static constexpr const char *kBottom = "bottom_quantizer", *kTop = "top_quantizer";
  const auto check = [&](const char* field, const QuantizerParameter& quantizer) {
    CAFFE_CHECK(quantizer.mode() != CAFFE_QUANT_DYNAMIC || field == kBottom, where, field,
                ": mode CAFFE_QUANT_DYNAMIC belongs to bottom_quantizer, the bottom whose values "
                "have the range");
    PseudoType(where + field, quantizer.pseudo_target_type());
    if (!HasLimits(quantizer)) return;
    const bool blob = field == kBottom || field == kTop;
    CAFFE_CHECK(blob, where, field,
                ": min_in, max_in, min_out and max_out, the limits of codes, are "
                "read for bottoms and tops; codes of weights are symmetric, and losses have none; "
                "remove them");
    CAFFE_CHECK(quantizer.has_observed_min() && quantizer.has_observed_max(), where, field,
                ": min_in, max_in, min_out and max_out are the codes of the ends of a range; give "
                "observed_min and observed_max beside them");
  };
  const auto check_all = [&](const char* field, const auto& quantizers, int count,
                             const char* what) {
    CAFFE_CHECK(quantizers.size() <= count, where, quantizers.size(), " ", field, " are given for ",
                count, " ", what);
    for (const QuantizerParameter& quantizer : quantizers) check(field, quantizer);
  };
  check_all(kBottom, layer.bottom_quantizer(), layer.bottom_size(), "bottoms");
  check_all(kTop, layer.top_quantizer(), layer.top_size(), "tops");
  for (const auto& quantizer : layer.blobs_quantizer()) check("blobs_quantizer", quantizer);
  if (layer.has_net_quantizer()) check("net_quantizer", layer.net_quantizer());
}

}  // namespace

RangeTable::RangeTable(const Wiring& wiring, const NetParameter& given)
    : mode(given.state().quantizer_mode()),
      pseudo_type(
          PseudoType(NetLabel(wiring.name) + ": state", given.state().pseudo_target_type())) {
  ReadLayers(wiring);
}

void RangeTable::ReadLayers(const Wiring& wiring) {
  std::map<int, std::string> versions;  // blob of the user -> name of its range at this layer
  const auto read_mode = [&](const QuantizerParameter& quantizer, const std::string& name) {
    // Among several quantizers of a blob, observe takes precedence over passive, and pseudo over
    // both.
    // DYNAMIC is a mode of the layer.
    if (quantizer.has_mode() && quantizer.mode() != CAFFE_QUANT_DYNAMIC) {
      const auto [mode, added] = modes.try_emplace(name, quantizer.mode());
      if (!added) mode->second = std::max(mode->second, quantizer.mode());
    }
    if (quantizer.has_pseudo_target_type()) {
      pseudo_types[name] = PseudoType(name, quantizer.pseudo_target_type());
    }
    if (quantizer.pseudo_reset_observed()) resets.insert(name);
  };
  const auto take = [&](const QuantizerParameter& quantizer, const std::string& blob,
                        const BlobBase& codes) {
    // As in the fork, a zone takes precedence over a name.
    if (quantizer.has_zone()) {
      zones[quantizer.zone()].insert(blob);
    } else if (!quantizer.name().empty()) {
      names[quantizer.name()].insert(blob);
    }
    read_mode(quantizer, blob);
    if (!quantizer.has_observed_min() || !quantizer.has_observed_max()) return;
    const auto range = ReadRange(blob, quantizer);
    if (!range) return;
    const DataType type = codes.type().is_quantized()
                              ? codes.type()
                              : PseudoType(blob, quantizer.pseudo_target_type());
    ranges[blob].Unite(ReadLimited(quantizer, {range->whole.low, range->whole.high, ""}, type));
  };
  for (const Node& node : wiring.nodes) {
    if (node.added()) continue;
    const LayerParameter& layer = node.layer->layer_param();
    CheckQuantizers(layer);
    if (layer.blobs_quantizer_size() > 0) {
      read_mode(layer.blobs_quantizer(0), wiring.WeightsRange(node));
    }
    const LayerRanges own = ReadLayerRanges(layer);
    const auto unite = [&](const std::optional<Range>& range, const auto& quantizers,
                           const std::string& blob) {
      const bool given = quantizers.size() > 0 && quantizers.Get(0).has_observed_min();
      if (range && !given) ranges[blob].Unite(*range);
    };
    if (own.bottom && !layer.bottom().empty()) {
      unite(own.bottom, layer.bottom_quantizer(),
            versions.at(wiring.UserBlob(node.named_bottom_ids()[0])));
    }
    for (int b = 0; b < layer.bottom_quantizer_size(); ++b) {
      const int bottom = node.named_bottom_ids()[b];
      take(layer.bottom_quantizer(b), versions.at(wiring.UserBlob(bottom)), *wiring.blobs[bottom]);
    }
    for (int t = 0; t < static_cast<int>(node.top_ids.size()); ++t) {
      const std::string name = wiring.RangeName(node, t);
      versions[wiring.UserBlob(node.top_ids[t])] = name;
      if (t == 0) unite(own.top, layer.top_quantizer(), name);
      if (t < layer.top_quantizer_size()) take(layer.top_quantizer(t), name, *node.top[t]);
    }
  }
  for (const auto& [zone, blobs] : zones) {
    Range whole;
    for (const std::string& blob : blobs) {
      if (ranges.count(blob)) whole.Unite(ranges.at(blob));
    }
    if (!whole.known()) continue;
    for (const std::string& blob : blobs) ranges[blob] = whole;
  }
}

std::map<std::string, Range> RangeTable::Read(const NetParameter& source, const NetParameter& net) {
  const StoredRanges stored = ReadRanges(source, net);
  std::map<std::string, Range> read;
  const auto take = [&read](const auto& stored_ranges, const auto& users) {
    for (const auto& [key, blobs] : users) {
      const auto found = stored_ranges.find(key);
      if (found == stored_ranges.end()) continue;
      for (const std::string& blob : blobs) read[blob] = found->second;
    }
  };
  take(stored.blobs, names);
  for (const auto& [name, range] : stored.blobs) read[name] = range;
  take(stored.zones, zones);
  for (const auto& [name, range] : read) ranges[name] = range;
  return read;
}

Range RangeTable::Find(const std::string& name) const {
  const auto found = ranges.find(name);
  return found == ranges.end() ? Range() : found->second;
}

QuantizerMode RangeTable::ModeOf(const std::string& quantizer) const {
  const auto own = modes.find(quantizer);
  return own == modes.end() ? mode : own->second;
}

DataType RangeTable::PseudoTypeOf(const std::string& quantizer) const {
  const auto own = pseudo_types.find(quantizer);
  return own == pseudo_types.end() ? pseudo_type : own->second;
}

bool RangeTable::HasMode(QuantizerMode wanted) const {
  return mode == wanted || std::any_of(modes.begin(), modes.end(),
                                       [&](const auto& own) { return own.second == wanted; });
}

bool RangeTable::active() const {
  return HasMode(CAFFE_QUANT_OBSERVE) || HasMode(CAFFE_QUANT_PSEUDO);
}

}  // namespace caffe

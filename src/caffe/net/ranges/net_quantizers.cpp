// The quantizers of layers: ranges and modes of the blobs that they read and write, and the names
// and zones under which files store the ranges of those blobs.
#include <algorithm>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/io/unknown_names.hpp"
#include "caffe/quant/observer.hpp"
#include "caffe/quant/stored_ranges.hpp"
#include "net_ranges.hpp"

namespace caffe {
namespace {

DataType PseudoType(const std::string& where, DataTypeProto type) {
  CAFFE_CHECK(type == CAFFE_INT8_QUANTIZED || type == CAFFE_INT16_QUANTIZED, where,
              ": pseudo_target_type ", DataTypeProto_Name(type),
              " is not supported (known: ", "CAFFE_INT8_QUANTIZED and CAFFE_INT16_QUANTIZED)");
  return type == CAFFE_INT8_QUANTIZED ? kQuant8 : kQuant16;
}

void CheckQuantizer(const std::string& where, const QuantizerParameter& quantizer) {
  PseudoType(where, quantizer.pseudo_target_type());
  CAFFE_CHECK(!quantizer.has_min_in() && !quantizer.has_max_in() && !quantizer.has_min_out() &&
                  !quantizer.has_max_out(),
              where,
              ": min_in, max_in, min_out and max_out, the limits of codes, are not supported; "
              "codes use all values of their type; remove them");
}

void CheckQuantizers(const LayerParameter& layer) {
  const std::string where = Concat(layer.name(), " (", layer.type(), "): ");
  const auto check = [&](const auto& quantizers, const char* field, int count, const char* what) {
    CAFFE_CHECK(quantizers.size() <= count, where, quantizers.size(), " ", field, " are given for ",
                count, " ", what);
    for (const QuantizerParameter& quantizer : quantizers) {
      CheckQuantizer(where + field, quantizer);
    }
  };
  check(layer.bottom_quantizer(), "bottom_quantizer", layer.bottom_size(), "bottoms");
  check(layer.top_quantizer(), "top_quantizer", layer.top_size(), "tops");
  for (const QuantizerParameter& quantizer : layer.blobs_quantizer()) {
    CheckQuantizer(where + "blobs_quantizer", quantizer);
  }
  if (layer.has_net_quantizer()) CheckQuantizer(where + "net_quantizer", layer.net_quantizer());
}

}  // namespace

void NetRanges::ReadModes(const NetParameter& given) {
  mode_ = given.state().quantizer_mode();
  pseudo_type_ = PseudoType(NetLabel(wiring_.name) + ": state", given.state().pseudo_target_type());
}

void NetRanges::ReadLayerQuantizers() {
  std::map<int, std::string> versions;  // blob of the user -> name of its range at this layer
  std::map<std::string, Range> ranges;
  const auto read_mode = [&](const QuantizerParameter& quantizer, const std::string& name) {
    // Of several quantizers of a blob, observe takes precedence over passive, and pseudo over both.
    if (quantizer.has_mode()) {
      const auto [mode, added] = modes_.try_emplace(name, quantizer.mode());
      if (!added) mode->second = std::max(mode->second, quantizer.mode());
    }
    if (quantizer.has_pseudo_target_type()) {
      pseudo_types_[name] = PseudoType(name, quantizer.pseudo_target_type());
    }
    if (quantizer.pseudo_reset_observed()) resets_.insert(name);
  };
  const auto take = [&](const QuantizerParameter& quantizer, const std::string& blob) {
    // As in the fork, a zone takes precedence over a name.
    if (quantizer.has_zone()) {
      zones_[quantizer.zone()].insert(blob);
    } else if (!quantizer.name().empty()) {
      names_[quantizer.name()].insert(blob);
    }
    read_mode(quantizer, blob);
    if (!quantizer.has_observed_min() || !quantizer.has_observed_max()) return;
    const auto range = ReadRange(blob, quantizer);
    if (range) ranges[blob].Unite({range->whole.low, range->whole.high});
  };
  for (const Node& node : wiring_.nodes) {
    if (node.added()) continue;
    const LayerParameter& layer = node.layer->layer_param();
    CheckQuantizers(layer);
    if (layer.blobs_quantizer_size() > 0) {
      read_mode(layer.blobs_quantizer(0), wiring_.WeightsRange(node));
    }
    for (int b = 0; b < layer.bottom_quantizer_size(); ++b) {
      take(layer.bottom_quantizer(b), versions.at(wiring_.UserBlob(node.named_bottom_ids()[b])));
    }
    for (int t = 0; t < static_cast<int>(node.top_ids.size()); ++t) {
      const std::string name = wiring_.RangeName(node, t);
      versions[wiring_.UserBlob(node.top_ids[t])] = name;
      if (t < layer.top_quantizer_size()) take(layer.top_quantizer(t), name);
    }
  }
  for (const auto& [zone, blobs] : zones_) {
    Range whole;
    for (const std::string& blob : blobs) {
      if (ranges.count(blob)) whole.Unite(ranges.at(blob));
    }
    if (!whole.known()) continue;
    for (const std::string& blob : blobs) ranges[blob] = whole;
  }
  loaded_ = std::move(ranges);
}

void NetRanges::Forget() {
  loaded_.clear();
  observers_.clear();
  histograms_.clear();
  pseudo_.clear();
  changed_ = true;
}

void NetRanges::Read(const NetParameter& source) {
  const StoredRanges stored = ReadRanges(source, *wiring_.parameter);
  const auto take = [&](const std::string& blob, const Range& range) {
    loaded_[blob] = range;
    observers_.erase(blob);
    pseudo_.erase(blob);
    histograms_.erase(blob);
  };
  for (const auto& [name, blobs] : names_) {
    const auto found = stored.blobs.find(name);
    for (const std::string& blob : blobs) {
      if (found != stored.blobs.end()) take(blob, found->second);
    }
  }
  for (const auto& [name, range] : stored.blobs) take(name, range);
  for (const auto& [zone, blobs] : zones_) {
    const auto found = stored.zones.find(zone);
    for (const std::string& blob : blobs) {
      if (found != stored.zones.end()) take(blob, found->second);
    }
  }
  changed_ = true;
}

}  // namespace caffe

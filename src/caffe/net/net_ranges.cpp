// The ranges of a net's blobs: observed in float kinds, kept in files, told to quantized layers.
#include <algorithm>
#include <optional>
#include <set>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/net/net.hpp"
#include "caffe/quant/observer.hpp"
#include "caffe/quant/stored_ranges.hpp"

namespace caffe {
namespace {

bool IsQuantized(const BlobBase* blob) { return blob->type().is_quantized(); }

}  // namespace

// The user's blob that a blob of an internal layer stands for; other blobs stand for themselves.
int Net::UserBlob(int id) const {
  for (auto found = origin_.find(id); found != origin_.end(); found = origin_.find(id)) {
    id = found->second;
  }
  return id;
}

std::string Net::RangeName(const Node& node, int top) const {
  const int id = UserBlob(node.top_ids[top]);
  bool after = false;
  for (const Node& other : nodes_) {
    if (&other == &node) {
      after = true;
    } else if (after && other.public_index >= 0 &&
               std::any_of(other.top_ids.begin(), other.top_ids.end(),
                           [&](int other_top) { return UserBlob(other_top) == id; })) {
      return blobs_[id]->name() + "@" + node.layer->name();
    }
  }
  return blobs_[id]->name();
}

void Net::set_observe(bool observe) {
  if (observes_any() && !observe) ranges_changed_ = true;
  observe_ = observe;
  observed_blobs_.clear();
  unobserved_blobs_.clear();
}

void Net::Observe(const Node& node) {
  for (size_t t = 0; t < node.top.size(); ++t) {
    const BlobBase& blob = *node.top[t];
    if (!blob.type().is_float()) continue;
    const std::string name = RangeName(node, static_cast<int>(t));
    if (observe_ ? unobserved_blobs_.count(name) > 0 : observed_blobs_.count(name) == 0) continue;
    auto& observer = observers_[name];
    if (!observer) {
      observer = std::make_unique<RangeObserver>(blob.type(), device_);
      const auto loaded = loaded_ranges_.find(name);
      if (loaded != loaded_ranges_.end()) observer->Merge(loaded->second.low, loaded->second.high);
    }
    observer->Observe(blob);
  }
}

std::map<std::string, Net::ObservedRange> Net::Ranges() const {
  std::map<std::string, ObservedRange> ranges = loaded_ranges_;
  for (const auto& [name, observer] : observers_) {
    const RangeObserver::Range range = observer->Read();
    if (range.observed) ranges[name] = {range.low, range.high};
    if (range.lost) {
      log::WarnOnce(Concat("net ", name_, ": blob ", name,
                           " held infinities or NaN while its range ",
                           "was observed; they are left out of it"));
    }
  }
  return ranges;
}

void Net::UsePlaceholderRanges() {
  placeholder_ranges_ = true;
  ranges_changed_ = true;
}

void Net::InitRanges(const NetParameter& given, const NetParameter& net) {
  CAFFE_CHECK(given.state().quantizer_mode() != CAFFE_QUANT_PSEUDO, "net ", name_,
              ": quantizer_mode CAFFE_QUANT_PSEUDO is not supported; observe ranges with "
              "CAFFE_QUANT_OBSERVE and run in integers");
  if (given.state().quantizer_mode() == CAFFE_QUANT_OBSERVE) observe_ = true;
  for (Node& node : nodes_) {
    node.quantized = std::any_of(node.bottom.begin(), node.bottom.end(), &IsQuantized) ||
                     std::any_of(node.top.begin(), node.top.end(), &IsQuantized);
    any_quantized_ = any_quantized_ || node.quantized;
  }
  ReadLayerQuantizers(net);
  TakeRanges(given);
}

// Follows every version of every blob through the net. A version is known by the name of the blob,
// or <blob>@<layer>; casts, splits and layers that carry codes through make no new one.
void Net::ResolveRanges() {
  ranges_changed_ = false;
  struct Version {
    std::string name;
    std::optional<ObservedRange> range;
  };
  const std::map<std::string, ObservedRange> known = Ranges();
  std::map<int, Version> versions;
  int placeholders = 0;
  const auto find = [&](const std::string& name) -> std::optional<ObservedRange> {
    auto found = known.find(name);
    // The fork has one range for all versions of a blob.
    if (found == known.end()) found = known.find(name.substr(0, name.rfind('@')));
    if (found == known.end()) return std::nullopt;
    return found->second;
  };
  const auto resolve = [&](const Version& version, const BlobBase& blob) {
    BlobRange resolved{{}, version.name};
    if (!IsQuantized(&blob)) return resolved;
    try {
      if (version.range) {
        resolved.range = AffineRange(version.range->low, version.range->high, blob.type());
      } else if (placeholder_ranges_) {
        resolved.range = AffineRange(-1, 1, blob.type());
        ++placeholders;
      }
    } catch (const Error& error) {
      CAFFE_THROW("blob ", version.name, ": ", error.what());
    }
    return resolved;
  };
  const auto tied = [&](const Node& node) {
    const std::optional<ObservedRange>& first = versions[node.bottom_ids[0]].range;
    return first && std::all_of(node.bottom_ids.begin(), node.bottom_ids.end(), [&](int id) {
             const std::optional<ObservedRange>& range = versions[id].range;
             return range && range->low == first->low && range->high == first->high;
           });
  };
  for (Node& node : nodes_) {
    node.bottom_ranges.clear();
    node.top_ranges.clear();
    for (size_t b = 0; b < node.bottom.size(); ++b) {
      node.bottom_ranges.push_back(resolve(versions[node.bottom_ids[b]], *node.bottom[b]));
    }
    const bool internal = node.public_index < 0;
    const bool carries = !node.bottom.empty() &&
                         (internal || (node.layer->CarriesRange() && IsQuantized(node.bottom[0])));
    const Version source = node.bottom.empty() ? Version() : versions[node.bottom_ids[0]];
    for (size_t t = 0; t < node.top.size(); ++t) {
      Version version = source;
      if (!carries) {
        version.name = RangeName(node, static_cast<int>(t));
        version.range = find(version.name);
        // A cast of the user's means the same numbers.
        if (!version.range && node.layer->type() == "Quantizer") version.range = source.range;
        // So does joining what has one range.
        if (!version.range && node.layer->type() == "Concat" && tied(node)) {
          version.range = source.range;
        }
      }
      node.top_ranges.push_back(resolve(version, *node.top[t]));
      versions[node.top_ids[t]] = version;
    }
  }
  if (placeholders > 0) {
    log::Warning("net " + name_ + ": quantized blobs without an observed range take [-1, 1] as a " +
                 "placeholder; times are right, results mean nothing");
  }
}

void Net::UpdateBlobRanges() {
  if (!any_quantized_ || !ranges_changed_) return;
  ResolveRanges();
  // In the order of a forward, so that the last version of a blob decides.
  for (const Node& node : nodes_) {
    for (size_t t = 0; t < node.top.size(); ++t) {
      if (IsQuantized(node.top[t])) node.top[t]->set_range(node.top_ranges[t].range);
    }
  }
}

// Ranges and derived copies of parameters for the layers of a forward, before the first of them runs.
void Net::PrepareQuantized(int first, int last, bool by_layer) {
  if (ranges_changed_) ResolveRanges();
  for (const Step& step : plan_.steps) {
    const int begin = step.nodes.front(), finish = step.nodes.back();
    if (finish < first || begin > last) continue;
    const bool fused = step.fused_relu && begin >= first && finish <= last && !by_layer;
    if (step.fused_relu) nodes_[begin].layer->SetFusedReLU(fused);
    for (int index : step.nodes) {
      Node& node = nodes_[index];
      if (index < first || index > last || !node.quantized) continue;
      node.written_ranges = fused ? nodes_[finish].top_ranges : node.top_ranges;
      node.layer->SetRanges(node.bottom_ranges, node.written_ranges);
      node.layer->PrepareParameters();
      if (fused) break;
    }
  }
}

void Net::WriteRanges(NetParameter* parameter) const {
  parameter->clear_quantizer();
  for (const auto& [name, range] : Ranges()) {
    QuantizerParameter* quantizer = parameter->add_quantizer();
    quantizer->set_name(name);
    quantizer->set_observed_min(range.low);
    quantizer->set_observed_max(range.high);
    quantizer->set_method("min_max");
  }
  for (const auto& layer : public_layers_) {
    const std::vector<double> scales = layer->WeightScales();
    if (scales.empty()) continue;
    const StoredRange range = ParameterRange(scales, layer->types().compute.info().code_max);
    QuantizerParameter* quantizer = parameter->add_quantizer();
    quantizer->set_name(layer->name() + "_blobs_0_quant");
    quantizer->set_observed_min(range.low);
    quantizer->set_observed_max(range.high);
    for (size_t c = 0; c < scales.size(); ++c) {
      quantizer->add_channel_min(range.channel_low[c]);
      quantizer->add_channel_max(range.channel_high[c]);
    }
  }
}

}  // namespace caffe

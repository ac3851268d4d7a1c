// The modes of quantizers, and quantizing and dequantizing in float.
#include <algorithm>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/io/unknown_names.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/weighted_layer.hpp"
#include "caffe/quant/observer.hpp"
#include "caffe/quant/stored_ranges.hpp"
#include "net_ranges.hpp"
#include "pseudo_tops.hpp"

namespace caffe {

bool NetRanges::set_mode(QuantizerMode mode) {
  if (mode != CAFFE_QUANT_PASSIVE) CheckRangeNames(*wiring_.parameter, wiring_.RangeNames());
  if (active()) changed_ = true;
  TakeMovedRanges();
  mode_ = mode;
  modes_.clear();
  return SetWeights();
}

bool NetRanges::set_pseudo_type(DataType type) {
  CAFFE_CHECK(type == kQuant8 || type == kQuant16, NetLabel(wiring_.name),
              ": pseudo-quantization to ", type.name(), " is not supported (known: int8 int16)");
  TakeMovedRanges();
  pseudo_type_ = type;
  pseudo_types_.clear();
  return SetWeights();
}

void NetRanges::TakeMovedRanges() {
  for (const auto& [name, quantizer] : pseudo_) {
    const Range range = quantizer->moved() ? quantizer->Read() : Range();
    if (!range.known()) continue;
    loaded_[name] = range;
    observers_.erase(name);
  }
  pseudo_.clear();
}

void NetRanges::CheckQuantizer(const std::string& name) const {
  const std::vector<std::string> known = Quantizers();
  CAFFE_CHECK(std::find(known.begin(), known.end(), name) != known.end(), NetLabel(wiring_.name),
              " has no quantizer '", name, "'");
}

bool NetRanges::SetMode(const std::string& quantizer, QuantizerMode mode) {
  CheckQuantizer(quantizer);
  if (mode != CAFFE_QUANT_PASSIVE) CheckRangeNames(*wiring_.parameter, wiring_.RangeNames());
  changed_ = true;
  modes_[quantizer] = mode;
  return SetWeights();
}

bool NetRanges::SetPseudoType(const std::string& quantizer, DataType type) {
  CheckQuantizer(quantizer);
  CAFFE_CHECK(type == kQuant8 || type == kQuant16, "quantizer ", quantizer,
              ": pseudo-quantization to ", type.name(), " is not supported (known: int8 int16)");
  if (type != PseudoTypeOf(quantizer)) {
    const Range range = KnownRange(quantizer);
    if (range.known()) loaded_[quantizer] = range;
    pseudo_.erase(quantizer);
  }
  pseudo_types_[quantizer] = type;
  return SetWeights();
}

QuantizerMode NetRanges::ModeOf(const std::string& quantizer) const {
  const auto own = modes_.find(quantizer);
  return own == modes_.end() ? mode_ : own->second;
}

DataType NetRanges::PseudoTypeOf(const std::string& quantizer) const {
  const auto own = pseudo_types_.find(quantizer);
  return own == pseudo_types_.end() ? pseudo_type_ : own->second;
}

std::vector<std::string> NetRanges::Quantizers() const {
  std::vector<std::string> names;
  for (const Node& node : wiring_.nodes) {
    if (node.added()) continue;
    for (size_t t = 0; t < node.top.size(); ++t) {
      names.push_back(wiring_.RangeName(node, static_cast<int>(t)));
    }
    if (node.layer->Facts().weighted) names.push_back(wiring_.WeightsRange(node));
  }
  return names;
}

bool NetRanges::HasMode(QuantizerMode mode) const {
  return mode_ == mode || std::any_of(modes_.begin(), modes_.end(),
                                      [&](const auto& own) { return own.second == mode; });
}

bool NetRanges::active() const {
  return HasMode(CAFFE_QUANT_OBSERVE) || HasMode(CAFFE_QUANT_PSEUDO);
}

bool NetRanges::SetWeights() {
  bool changed = false;
  for (int n = 0; n <= wiring_.last_node(); ++n) {
    auto* weighted = dynamic_cast<WeightedLayer*>(wiring_.nodes[n].layer.get());
    if (!weighted) continue;
    const std::string name = wiring_.WeightsRange(wiring_.nodes[n]);
    std::optional<DataType> type;
    if (ModeOf(name) == CAFFE_QUANT_PSEUDO) type = PseudoTypeOf(name);
    std::optional<DataType>& now = weights_[n];
    if (now == type) continue;
    weighted->set_pseudo_weights(type);
    now = type;
    changed = true;
  }
  return changed;
}

Range NetRanges::KnownRange(const std::string& name) const {
  const auto pseudo = pseudo_.find(name);
  if (pseudo != pseudo_.end() && pseudo->second->moved()) return pseudo->second->Read();
  const auto observer = observers_.find(name);
  if (observer != observers_.end()) {
    const Range range = observer->second->Read();
    if (range.known()) return range;
  }
  const auto loaded = loaded_.find(name);
  return loaded == loaded_.end() ? Range() : loaded->second;
}

bool NetRanges::Moves(const std::string& name) const {
  if (wiring_.phase != TRAIN) return false;
  if (resets_.count(name)) return true;
  // A method that clips chose the range: the smallest and the largest value would be another one.
  const auto loaded = loaded_.find(name);
  const std::string origin = loaded == loaded_.end() ? "" : loaded->second.origin;
  return origin.empty() || origin == "min_max" || observers_.count(name) > 0;
}

PseudoQuantizer& NetRanges::Pseudo(const std::string& name, DataType type) {
  const auto found = pseudo_.find(name);
  if (found != pseudo_.end()) return *found->second;
  Range range;
  if (wiring_.phase != TRAIN || !resets_.count(name)) range = KnownRange(name);
  auto quantizer = std::make_unique<PseudoQuantizer>(type, PseudoTypeOf(name), range, device_);
  return *(pseudo_[name] = std::move(quantizer));
}

void NetRanges::AfterRepeat(const Node& node) {
  if (node.added()) return;
  for (size_t t = 0; t < node.top.size(); ++t) {
    const std::string name = wiring_.RangeName(node, static_cast<int>(t));
    if (node.top[t]->type().is_float() && ModeOf(name) == CAFFE_QUANT_PSEUDO) {
      ForwardPseudo(node, static_cast<int>(t), name, true);
    }
  }
}

void NetRanges::ForwardPseudo(const Node& node, int top, const std::string& name, bool repeats) {
  if (pseudo_tops_.empty()) pseudo_tops_ = FindPseudoTops(wiring_);
  BlobBase& blob = *node.top[top];
  PseudoQuantizer& quantizer = Pseudo(name, blob.type());
  if (!repeats && Moves(name)) quantizer.Observe(blob);
  if (!pseudo_tops_[&node - wiring_.nodes.data()][top]) return;
  if (quantizer.has_range()) {
    quantizer.Quantize(&blob);
  } else {
    log::WarnOnce(Concat(NetLabel(wiring_.name), ": blob ", name, " has no range yet; mode pseudo ",
                         "does not quantize it. Train in mode pseudo, or load a calibrated file"));
  }
}

void NetRanges::BeforeBackward(const Node& node) {
  if (node.added() || pseudo_tops_.empty()) return;
  const std::vector<bool>& tops = pseudo_tops_[&node - wiring_.nodes.data()];
  for (size_t t = 0; t < tops.size(); ++t) {
    if (!tops[t]) continue;
    const std::string name = wiring_.RangeName(node, static_cast<int>(t));
    const auto found = pseudo_.find(name);
    if (ModeOf(name) != CAFFE_QUANT_PSEUDO || found == pseudo_.end()) continue;
    if (found->second->has_range()) found->second->Backward(node.top[t]);
  }
}

void NetRanges::CopyFrom(const NetRanges& other) {
  loaded_ = other.All();
  for (const auto& [name, quantizer] : pseudo_) {
    const auto found = loaded_.find(name);
    if (found != loaded_.end()) quantizer->SetRange(found->second);
  }
  changed_ = true;
}

}  // namespace caffe

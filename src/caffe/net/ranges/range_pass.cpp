#include "range_pass.hpp"

#include "caffe.pb.h"
#include "caffe/core/log.hpp"
#include "caffe/io/unknown_names.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "pseudo_tops.hpp"

namespace caffe {

void RangePass::Visit(const Node& node, bool repeats) {
  if (node.added()) return;
  for (int t = 0; t < static_cast<int>(node.top.size()); ++t) {
    if (!node.top[t]->type().is_float()) continue;
    const std::string& name = wiring_.RangeName(node, t);
    const QuantizerMode mode = table_->ModeOf(name);
    if (mode == CAFFE_QUANT_PSEUDO) Quantize(node, t, name, repeats);
    if (mode == CAFFE_QUANT_OBSERVE && !repeats && !node.fixed_ranges) Observe(*node.top[t], name);
  }
}

void RangePass::Observe(const BlobBase& blob, const std::string& name) {
  if (!observers_.count(name)) {
    if (!scratch_) scratch_ = RangeObserver::MakeScratch(device_);
    auto observer = std::make_unique<RangeObserver>(blob.type(), device_, scratch_);
    observer->Merge(table_->Find(name));
    observers_[name] = std::move(observer);
  }
  observers_.at(name)->Observe(blob);
}

void RangePass::Quantize(const Node& node, int top, const std::string& name, bool repeats) {
  if (pseudo_tops_.empty()) pseudo_tops_ = FindPseudoTops(wiring_);
  const bool rounds = pseudo_tops_[&node - wiring_.nodes.data()][top];
  if (node.fixed_ranges && !rounds) return;
  BlobBase& blob = *node.top[top];
  PseudoQuantizer& quantizer = Pseudo(name, blob.type());
  if (node.fixed_ranges) {
    const auto bounds = node.layer->Facts().bounds;
    if (!quantizer.has_range() && bounds) quantizer.SetRange({bounds->low, bounds->high, ""});
  } else if (!repeats && Moves(name)) {
    quantizer.Observe(blob);
  }
  if (!rounds) return;
  if (quantizer.has_range()) {
    quantizer.Quantize(&blob);
  } else {
    log::WarnOnce(Concat(NetLabel(wiring_.name), ": blob ", name, " has no range yet; mode pseudo ",
                         "does not quantize it. Train in mode pseudo, or load a calibrated file"));
  }
}

void RangePass::BeforeBackward(const Node& node) {
  if (node.added() || pseudo_tops_.empty()) return;
  const std::vector<bool>& tops = pseudo_tops_[&node - wiring_.nodes.data()];
  for (size_t t = 0; t < tops.size(); ++t) {
    if (!tops[t]) continue;
    const std::string& name = wiring_.RangeName(node, static_cast<int>(t));
    const auto found = pseudo_.find(name);
    if (table_->ModeOf(name) != CAFFE_QUANT_PSEUDO || found == pseudo_.end()) continue;
    if (found->second->has_range()) found->second->Backward(node.top[t]);
  }
}

PseudoQuantizer& RangePass::Pseudo(const std::string& name, DataType type) {
  const auto found = pseudo_.find(name);
  if (found != pseudo_.end()) return *found->second;
  const bool resets = wiring_.phase == TRAIN && table_->resets.count(name) > 0;
  auto quantizer = std::make_unique<PseudoQuantizer>(type, table_->PseudoTypeOf(name),
                                                     resets ? Range() : Find(name), device_);
  return *(pseudo_[name] = std::move(quantizer));
}

bool RangePass::Moves(const std::string& name) const {
  if (wiring_.phase != TRAIN) return false;
  if (table_->resets.count(name) || observers_.count(name)) return true;
  // A method that clips chose the range: the smallest and the largest value would be another one.
  const std::string origin = table_->Find(name).origin;
  return origin.empty() || origin == "min_max";
}

Range RangePass::Find(const std::string& name) const {
  const auto observer = observers_.find(name);
  const Range range = observer == observers_.end() ? Range() : observer->second->Read();
  return range.known() ? range : table_->Find(name);
}

std::map<std::string, Range> RangePass::Ranges() const {
  std::map<std::string, Range> ranges = table_->ranges;
  for (const auto& [name, observer] : observers_) {
    const Range range = observer->Read();
    if (range.known()) ranges[name] = range;
    if (observer->lost()) {
      log::WarnOnce(Concat(NetLabel(wiring_.name), ": blob ", name,
                           " had infinities or NaN while its range ",
                           "was observed; the range leaves them out"));
    }
  }
  for (const auto& [name, quantizer] : pseudo_) {
    const Range range = quantizer->moved() ? quantizer->Read() : Range();
    if (range.known()) ranges[name] = range;
  }
  for (const auto& [bottom, top] : Tied()) {
    const auto found = ranges.find(top);
    if (found != ranges.end() && ranges.count(bottom)) ranges[bottom] = found->second;
  }
  return ranges;
}

std::vector<std::pair<std::string, std::string>> RangePass::Tied() const {
  if (observers_.empty()) return {};
  std::vector<std::pair<std::string, std::string>> names = wiring_.TiedRanges();
  std::erase_if(names, [&](const auto& pair) {
    return !observers_.count(pair.first) || !observers_.count(pair.second);
  });
  return names;
}

std::map<std::string, Histogram> RangePass::Histograms() const {
  std::map<std::string, Histogram> histograms = histograms_;
  for (const auto& [name, observer] : observers_) {
    const Histogram histogram = observer->ReadHistogram();
    if (histogram.total() > 0) histograms[name].Add(histogram);
  }
  return histograms;
}

void RangePass::Forget() {
  observers_.clear();
  histograms_.clear();
  pseudo_.clear();
}

void RangePass::Forget(const std::string& name) {
  observers_.erase(name);
  histograms_.erase(name);
  pseudo_.erase(name);
}

void RangePass::EndMoving(const std::string& only) {
  std::erase_if(pseudo_, [&](const auto& entry) {
    if (!only.empty() && entry.first != only) return false;
    const Range range = entry.second->moved() ? entry.second->Read() : Range();
    if (range.known()) {
      table_->ranges[entry.first] = range;
      observers_.erase(entry.first);
    }
    return true;
  });
}

void RangePass::TakeTable() {
  for (const auto& [name, quantizer] : pseudo_) {
    const Range range = table_->Find(name);
    if (range.known()) quantizer->SetRange(range);
  }
}

void RangePass::SetDevice(Device* device) {
  table_->ranges = Ranges();
  histograms_ = Histograms();
  EndMoving();
  observers_.clear();
  scratch_.reset();
  device_ = device;
}

}  // namespace caffe

#include "net_ranges.hpp"

#include <algorithm>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/io/unknown_names.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/quant/observer.hpp"
#include "caffe/quant/stored_ranges.hpp"

namespace caffe {
namespace {

bool IsQuantized(const BlobBase* blob) { return blob->type().is_quantized(); }

// Returns the scale of a layer that carries codes: y = scale x.
double ScaleOf(const Affine& affine) {
  std::vector<double> scale, shift;
  affine.evaluate(&scale, &shift);
  return scale[0];
}

// "<blob>@<layer>" for "<blob>@<layer>#2"; other names as they are.
std::string OfFirstNamesake(const std::string& name) {
  const size_t end = name.find_last_not_of("0123456789");
  const bool numbered = end != std::string::npos && end + 1 < name.size() && name[end] == '#';
  return numbered && name.rfind('@', end) != std::string::npos ? name.substr(0, end) : name;
}

}  // namespace

NetRanges::NetRanges(const Wiring& wiring, const NetParameter& given, Device* device)
    : wiring_(wiring), device_(device), nodes_(wiring.nodes.size()) {
  ReadModes(given);
  ReadLayerQuantizers();
  if (active()) CheckRangeNames(*wiring_.parameter, wiring_.RangeNames());
  Read(given);
  SetWeights();
}

NetRanges::~NetRanges() = default;

void NetRanges::AfterForward(const Node& node) {
  if (node.added()) return;
  for (size_t t = 0; t < node.top.size(); ++t) {
    const BlobBase& blob = *node.top[t];
    if (!blob.type().is_float()) continue;
    const std::string name = wiring_.RangeName(node, static_cast<int>(t));
    const QuantizerMode mode = ModeOf(name);
    if (mode == CAFFE_QUANT_PSEUDO) ForwardPseudo(node, static_cast<int>(t), name, false);
    if (mode != CAFFE_QUANT_OBSERVE) continue;
    auto& observer = observers_[name];
    if (!observer) {
      if (!scratch_) scratch_ = RangeObserver::MakeScratch(device_);
      observer = std::make_unique<RangeObserver>(blob.type(), device_, scratch_);
      const auto loaded = loaded_.find(name);
      if (loaded != loaded_.end()) observer->Merge(loaded->second);
    }
    observer->Observe(blob);
  }
}

std::map<std::string, Range> NetRanges::All() const {
  std::map<std::string, Range> ranges = loaded_;
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
  for (const auto& [bottom, top] : TiedNames()) {
    const auto found = ranges.find(top);
    if (found != ranges.end() && ranges.count(bottom)) ranges[bottom] = found->second;
  }
  return ranges;
}

std::map<std::string, Range> NetRanges::Stored() const {
  std::map<std::string, Range> ranges = All();
  std::set<std::string> unions;
  for (const auto& [name, range] : ranges) {
    const std::string of_all = SharedExpertName(name);
    if (of_all != name) unions.insert(of_all);
  }
  for (const std::string& own : wiring_.RangeNames()) unions.erase(own);
  for (const std::string& name : unions) ranges.erase(name);
  return ranges;
}

std::map<std::string, Histogram> NetRanges::Histograms() const {
  std::map<std::string, Histogram> histograms = histograms_;
  for (const auto& [name, observer] : observers_) {
    const Histogram histogram = observer->ReadHistogram();
    if (histogram.total() > 0) histograms[name].Add(histogram);
  }
  return histograms;
}

void NetRanges::UsePlaceholders() {
  placeholders_ = true;
  changed_ = true;
}

void NetRanges::SetDevice(Device* device) {
  loaded_ = All();
  histograms_ = Histograms();
  TakeMovedRanges();
  observers_.clear();
  scratch_.reset();
  device_ = device;
  changed_ = true;
}

// Follows every version of every blob through the net. A version has the name of the blob, or
// <blob>@<layer>; casts, splits and layers that carry codes do not create versions.
void NetRanges::Resolve() {
  struct Version {
    std::string name;
    Range range;
    double scale = 1;  // of the real values: codes are carried, and their zero point stays
  };
  const std::map<std::string, Range> known = All();
  std::map<int, Version> versions;
  const auto find = [&](const std::string& name) {
    auto found = known.find(name);
    // Older files have one range for all layers of one name that change the blob.
    if (found == known.end()) found = known.find(OfFirstNamesake(name));
    // The fork has one range for all versions of a blob.
    if (found == known.end()) found = known.find(name.substr(0, name.rfind('@')));
    // Observed where the experts computed together.
    if (found == known.end()) found = known.find(SharedExpertName(name));
    return found == known.end() ? Range() : found->second;
  };
  const auto resolve = [&](const Version& version, const BlobBase& blob) {
    BlobRange resolved{{}, version.name};
    if (!IsQuantized(&blob)) return resolved;
    try {
      if (version.range.known()) {
        resolved = {AffineRange(version.range, blob.type()), version.name};
      } else if (placeholders_) {
        resolved = {AffineRange({-1, 1}, blob.type()), version.name};
      }
      resolved.scale *= version.scale;
    } catch (const Error& error) {
      CAFFE_THROW("blob ", version.name, ": ", error.what());
    }
    return resolved;
  };
  const auto tied = [&](const Node& node) {
    const Version& first = versions[node.bottom_ids[0]];
    return std::all_of(node.bottom_ids.begin(), node.bottom_ids.end(), [&](int id) {
      const Version& other = versions[id];
      return other.range.known() && other.range.low == first.range.low &&
             other.range.high == first.range.high && other.scale == first.scale;
    });
  };
  for (size_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = wiring_.nodes[n];
    NodeRanges& ranges = nodes_[n];
    ranges.bottom.clear();
    ranges.top.clear();
    for (size_t b = 0; b < node.bottom.size(); ++b) {
      ranges.bottom.push_back(resolve(versions[node.bottom_ids[b]], *node.bottom[b]));
    }
    using Rule = LayerFacts::Range;
    const LayerFacts facts = node.layer->Facts();
    const Rule rule = facts.range;
    const bool carries = !node.bottom.empty() &&
                         (node.added() || (rule == Rule::kCarried && IsQuantized(node.bottom[0])));
    for (size_t t = 0; t < node.top.size(); ++t) {
      // Each top of a composite layer is a bottom of its node.
      const size_t from = node.composite ? t : 0;
      const Version source = node.bottom.empty() ? Version() : versions[node.bottom_ids[from]];
      Version version = source;
      if (!carries) {
        const std::string name = wiring_.RangeName(node, static_cast<int>(t));
        const Range range = find(name);
        const bool same = rule == Rule::kSame || (rule == Rule::kTied && tied(node));
        if (range.known() || !same) version = {"", range};
        version.name = name;
      } else if (!node.added() && facts.affine) {
        version.scale *= ScaleOf(*facts.affine);
      }
      ranges.top.push_back(resolve(version, *node.top[t]));
      versions[node.top_ids[t]] = version;
    }
  }
}

bool NetRanges::Update() {
  if (!changed_) return false;
  Resolve();
  changed_ = false;
  ++epoch_;
  for (size_t n = 0; n < nodes_.size(); ++n) {
    if (!wiring_.nodes[n].quantized) continue;
    wiring_.nodes[n].layer->SetRanges(nodes_[n]);
  }
  return true;
}

void NetRanges::Publish(int index) const {
  const Node& node = wiring_.nodes[index];
  for (size_t t = 0; t < node.top.size(); ++t) {
    if (IsQuantized(node.top[t])) node.top[t]->set_range(nodes_[index].top[t]);
  }
}

QuantRange NetRanges::AsRead(int id) const {
  for (size_t n = 0; n < nodes_.size(); ++n) {
    for (size_t b = 0; b < nodes_[n].bottom.size(); ++b) {
      if (wiring_.nodes[n].bottom_ids[b] == id) return nodes_[n].bottom[b];
    }
  }
  return {};
}

void NetRanges::Write(NetParameter* parameter) const {
  parameter->clear_quantizer();
  std::set<std::string> tied;
  for (const auto& names : TiedNames()) tied.insert(names.first);
  for (const auto& [name, range] : Stored()) {
    QuantizerParameter* quantizer = parameter->add_quantizer();
    quantizer->set_name(name);
    quantizer->set_method("min_max");
    WriteRange(range, quantizer);
    if (tied.count(name)) quantizer->set_method("tied");
  }
  for (const Node& node : wiring_.nodes) {
    const LayerBase* const layer = node.layer.get();
    const LayerFacts facts = layer->Facts();
    if (!facts.weighted || !facts.weighted->code_scales) continue;
    const std::vector<double> scales = facts.weighted->code_scales();
    if (scales.empty()) continue;
    QuantizerParameter* quantizer = parameter->add_quantizer();
    quantizer->set_name(wiring_.WeightsRange(node));
    WriteRange(SymmetricRanges(scales, layer->types().compute), quantizer);
  }
}

}  // namespace caffe

#include "net_ranges.hpp"

#include <algorithm>
#include <set>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/io/unknown_names.hpp"
#include "caffe/layer/has_pseudo_weights.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/quant/stored_ranges.hpp"

namespace caffe {
namespace {

void CheckPseudoType(const std::string& where, DataType type) {
  CAFFE_CHECK(type == kQuant8 || type == kQuant16, where, ": pseudo-quantization to ", type.name(),
              " is not supported (known: int8 int16)");
}

}  // namespace

NetRanges::NetRanges(const Wiring& wiring, const NetParameter& given, Device* device)
    : wiring_(wiring),
      table_(wiring, given),
      pass_(wiring, &table_, device),
      nodes_(wiring.nodes.size()) {
  if (table_.active()) CheckNames();
  Read(given);
  SetWeights();
}

void NetRanges::CheckNames() const { CheckRangeNames(*wiring_.parameter, wiring_.RangeNames()); }

std::vector<std::string> NetRanges::Quantizers() const {
  std::vector<std::string> names;
  for (const Node& node : wiring_.nodes) {
    if (node.added() || node.fixed_ranges) continue;
    for (size_t t = 0; t < node.top.size(); ++t) {
      names.push_back(wiring_.RangeName(node, static_cast<int>(t)));
    }
    if (node.layer->Facts().weighted) names.push_back(wiring_.WeightsRange(node));
  }
  return names;
}

void NetRanges::CheckQuantizer(const std::string& name) const {
  const std::vector<std::string> known = Quantizers();
  CAFFE_CHECK(std::find(known.begin(), known.end(), name) != known.end(), NetLabel(wiring_.name),
              " has no quantizer '", name, "'");
}

void NetRanges::CheckMode(QuantizerMode mode, const std::string& what) const {
  const auto is_dynamic = [](const Node& node) {
    const TypeTriple types = node.layer->types();
    return !node.added() && types.compute.is_quantized() && types.in.is_float();
  };
  const auto& nodes = wiring_.nodes;
  const bool has = std::any_of(nodes.begin(), nodes.end(), is_dynamic);
  CAFFE_CHECK(mode != CAFFE_QUANT_DYNAMIC || (has && what.empty()), NetLabel(wiring_.name), what,
              ": mode CAFFE_QUANT_DYNAMIC decides the types of layers, and cannot be set after the "
              "net was made; write state { quantizer_mode: CAFFE_QUANT_DYNAMIC } and data_type: "
              "CAFFE_INT8_QUANTIZED into the prototxt");
}

bool NetRanges::set_mode(QuantizerMode mode) {
  CheckMode(mode, "");
  if (mode != CAFFE_QUANT_PASSIVE) CheckNames();
  if (table_.active()) changed_ = true;
  pass_.EndMoving();
  table_.mode = mode;
  table_.modes.clear();
  return SetWeights();
}

bool NetRanges::set_pseudo_type(DataType type) {
  CheckPseudoType(NetLabel(wiring_.name), type);
  pass_.EndMoving();
  table_.pseudo_type = type;
  table_.pseudo_types.clear();
  return SetWeights();
}

bool NetRanges::SetMode(const std::string& quantizer, QuantizerMode mode) {
  CheckQuantizer(quantizer);
  CheckMode(mode, Concat(", quantizer ", quantizer));
  if (mode != CAFFE_QUANT_PASSIVE) CheckNames();
  changed_ = true;
  table_.modes[quantizer] = mode;
  return SetWeights();
}

bool NetRanges::SetPseudoType(const std::string& quantizer, DataType type) {
  CheckQuantizer(quantizer);
  CheckPseudoType("quantizer " + quantizer, type);
  if (type != table_.PseudoTypeOf(quantizer)) pass_.EndMoving(quantizer);
  table_.pseudo_types[quantizer] = type;
  return SetWeights();
}

bool NetRanges::SetWeights() {
  bool changed = false;
  for (int n = 0; n <= wiring_.last_node(); ++n) {
    auto* weighted = dynamic_cast<HasPseudoWeights*>(wiring_.nodes[n].layer.get());
    if (!weighted) continue;
    const std::string name = wiring_.WeightsRange(wiring_.nodes[n]);
    std::optional<DataType> type;
    if (table_.ModeOf(name) == CAFFE_QUANT_PSEUDO) type = table_.PseudoTypeOf(name);
    std::optional<DataType>& now = weights_[n];
    if (now == type) continue;
    weighted->set_pseudo_weights(type);
    now = type;
    changed = true;
  }
  return changed;
}

std::map<std::string, Range> NetRanges::Stored() const {
  std::map<std::string, Range> ranges = pass_.Ranges();
  std::set<std::string> unions;
  for (const auto& [name, range] : ranges) {
    const std::string of_all = SharedExpertName(name);
    if (of_all != name) unions.insert(of_all);
  }
  for (const std::string& own : wiring_.RangeNames()) unions.erase(own);
  for (const std::string& name : unions) ranges.erase(name);
  return ranges;
}

void NetRanges::Forget() {
  table_.ranges.clear();
  pass_.Forget();
  changed_ = true;
}

void NetRanges::Read(const NetParameter& source) {
  for (const auto& [name, range] : table_.Read(source, *wiring_.parameter)) pass_.Forget(name);
  changed_ = true;
}

void NetRanges::Write(NetParameter* parameter) const {
  parameter->clear_quantizer();
  std::set<std::string> tied;
  for (const auto& names : pass_.Tied()) tied.insert(names.first);
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
    if (node.fixed_ranges || !facts.weighted || !facts.weighted->code_scales) continue;
    const std::vector<double> scales = facts.weighted->code_scales();
    if (scales.empty()) continue;
    QuantizerParameter* quantizer = parameter->add_quantizer();
    quantizer->set_name(wiring_.WeightsRange(node));
    WriteRange(SymmetricRanges(scales, layer->types().compute), quantizer);
  }
}

void NetRanges::CopyFrom(const NetRanges& other) {
  table_.ranges = other.pass_.Ranges();
  pass_.TakeTable();
  changed_ = true;
}

void NetRanges::SetDevice(Device* device) {
  pass_.SetDevice(device);
  changed_ = true;
}

bool NetRanges::Update() {
  if (!changed_) return false;
  nodes_ = ResolveRanges(wiring_, pass_.Ranges(), placeholders_);
  changed_ = false;
  ++epoch_;
  for (size_t n = 0; n < nodes_.size(); ++n) {
    if (wiring_.nodes[n].quantized) wiring_.nodes[n].layer->SetRanges(nodes_[n]);
    SetScales(static_cast<int>(n));
  }
  return true;
}

// A blob of a scaled type has one scale, which pointers to its data carry.
void NetRanges::SetScales(int index) const {
  const Node& node = wiring_.nodes[index];
  for (size_t t = 0; t < node.top.size(); ++t) {
    if (node.top[t]->type().is_scaled()) node.top[t]->set_range(nodes_[index].top[t]);
  }
}

void NetRanges::CheckScales() const {
  for (size_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = wiring_.nodes[n];
    for (size_t t = 0; t < node.top.size(); ++t) {
      const DataType type = node.top[t]->type();
      CAFFE_CHECK(!type.is_scaled() || nodes_[n].top[t].observed, node.layer->name(), " (",
                  node.layer->type(), "): no range of blob ", nodes_[n].top[t].name,
                  " was ever observed, from which the scale of data type '", type.name(),
                  "' follows; calibrate: run the net in a float type on typical data with ",
                  "quant_mode CAFFE_QUANT_OBSERVE, save it, and load that caffemodel here");
    }
  }
}

void NetRanges::Publish(int index) const {
  const Node& node = wiring_.nodes[index];
  for (size_t t = 0; t < node.top.size(); ++t) {
    if (node.top[t]->type().is_quantized()) node.top[t]->set_range(nodes_[index].top[t]);
  }
}

void NetRanges::UpdateBlobs() {
  if (!Update()) return;
  // In the order of a forward, so that the last version of a blob sets the range.
  for (int n = 0; n <= wiring_.last_node(); ++n) Publish(n);
}

bool NetRanges::Lack() const {
  for (int n = 0; n <= wiring_.last_node(); ++n) {
    const BlobVec& tops = wiring_.nodes[n].top;
    for (size_t t = 0; t < tops.size(); ++t) {
      if (tops[t]->type().has_range() && !nodes_[n].top[t].observed) return true;
    }
  }
  return false;
}

QuantRange NetRanges::AsRead(int id) const {
  for (size_t n = 0; n < nodes_.size(); ++n) {
    for (size_t b = 0; b < nodes_[n].bottom.size(); ++b) {
      if (wiring_.nodes[n].bottom_ids[b] == id) return nodes_[n].bottom[b];
    }
  }
  return {};
}

}  // namespace caffe

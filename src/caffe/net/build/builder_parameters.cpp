// The parameters of a net that is built: which blobs are learned, which are shared, and those of
// composite layers, which are blobs of the layers that compute them.
#include <algorithm>
#include <set>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/layer/sub_net.hpp"
#include "caffe/net/run/in_layer.hpp"
#include "net_builder.hpp"

namespace caffe {
namespace {

std::string Where(const LayerBase& layer) {
  return Concat(layer.name(), " (", layer.type(), "): ");
}

void CheckParamCount(const LayerBase& layer, size_t blobs) {
  const int given = layer.layer_param().param_size();
  CAFFE_CHECK(given <= static_cast<int>(blobs), Where(layer), "has ", blobs, " parameters, ", given,
              " param entries are given");
}

}  // namespace

std::vector<int> NetBuilder::AppendLearnable(int index) {
  Node& node = wiring_.nodes[index];
  std::vector<int> ids;
  bool replaced = false;
  for (int i = 0; i < static_cast<int>(node.layer->blobs().size()); ++i) {
    const ParamSpec spec = SpecOf({index, i});
    ids.push_back(Learnable(node.layer.get(), i, spec, &replaced));
    node.lr_mult.push_back(spec.lr_mult());
  }
  if (replaced) {  // the layer sets itself up again with the blobs that it has now, as after a move
    InLayer(*node.layer, [&] { node.layer->MoveToDevice(device_, node.bottom, node.top); });
  }
  return ids;
}

void NetBuilder::AppendParameters(int node) {
  const auto& blobs = wiring_.nodes[node].layer->blobs();
  CheckParamCount(*wiring_.nodes[node].layer, blobs.size());
  const std::vector<int> ids = AppendLearnable(node);
  wiring_.learnable_ids.insert(wiring_.learnable_ids.end(), ids.begin(), ids.end());
  wiring_.parameters.insert(wiring_.parameters.end(), blobs.begin(), blobs.end());
}

int NetBuilder::Learnable(LayerBase* layer, int index, const ParamSpec& spec, bool* replaced) {
  if (!spec.name().empty() && owners_.count(spec.name())) {
    *replaced = Share(layer, index, spec) || *replaced;
    return owners_.at(spec.name()).learnable;
  }
  const int id = static_cast<int>(wiring_.learnable.size());
  const std::shared_ptr<BlobBase>& blob = layer->blobs()[index];
  if (!spec.name().empty()) {
    owners_[spec.name()] = {layer->name(),        index, id, blob, spec.has_lr_mult(),
                            spec.has_decay_mult()};
  }
  wiring_.learnable.push_back(blob.get());
  wiring_.lr_mult.push_back(spec.lr_mult());
  wiring_.decay_mult.push_back(spec.decay_mult());
  return id;
}

bool NetBuilder::Share(LayerBase* layer, int index, const ParamSpec& spec) {
  Owner& own = owners_.at(spec.name());
  std::shared_ptr<BlobBase>& blob = layer->blobs()[index];
  Log(Concat("Sharing parameters '", spec.name(), "' owned by layer '", own.layer,
             "', param index ", own.index));
  const bool permissive = spec.share_mode() == ParamSpec::PERMISSIVE;
  const bool same_shape = blob->shape() == own.blob->shape();
  CAFFE_CHECK(same_shape || (permissive && blob->count() == own.blob->count()), layer->name(), " (",
              layer->type(), "): parameter '", spec.name(), "' of shape ", blob->shape_string(),
              " cannot be shared with that of layer '", own.layer, "' of shape ",
              own.blob->shape_string());
  blob->ShareData(*own.blob);
  blob->ShareDiff(*own.blob);
  if (same_shape) blob = own.blob;
  const auto unite = [&](bool given, float value, bool* given_before, float* known,
                         const char* field) {
    if (!given) return;
    CAFFE_CHECK(!*given_before || *known == value, "shared parameter '", spec.name(),
                "' has different ", field, " in layers '", own.layer, "' and '", layer->name(),
                "'");
    *known = value;
    *given_before = true;
  };
  unite(spec.has_lr_mult(), spec.lr_mult(), &own.lr_given, &wiring_.lr_mult[own.learnable],
        "lr_mult");
  unite(spec.has_decay_mult(), spec.decay_mult(), &own.decay_given,
        &wiring_.decay_mult[own.learnable], "decay_mult");
  return same_shape;
}

ParamSpec NetBuilder::SpecOf(const Slot& slot) const {
  const auto changed = specs_.find(slot);
  if (changed != specs_.end()) return changed->second;
  const LayerParameter& parameter = wiring_.nodes[slot.node].layer->layer_param();
  return slot.index < parameter.param_size() ? parameter.param(slot.index) : ParamSpec();
}

std::vector<NetBuilder::Slot> NetBuilder::FindSlots(const SubNet& net, const NetLevel& level,
                                                    const std::string& prefix,
                                                    const LayerBase& layer) const {
  const auto slots_of = [&](int node) {
    if (wiring_.nodes[node].composite) return slots_.at(node);
    std::vector<Slot> slots;
    const int count = static_cast<int>(wiring_.nodes[node].layer->blobs().size());
    for (int i = 0; i < count; ++i) slots.push_back({node, i});
    return slots;
  };
  std::vector<Slot> slots;
  std::set<std::string> names;
  if (net.parameters.empty()) {
    for (const int node : level.nodes) {
      for (const Slot& slot : slots_of(node)) {
        const std::string& name = SpecOf(slot).name();
        if (name.empty() || names.insert(name).second) slots.push_back(slot);
      }
    }
    return slots;
  }
  for (const SubNet::Parameter& parameter : net.parameters) {
    const std::string name = prefix + parameter.layer;
    const auto found = std::find_if(level.nodes.begin(), level.nodes.end(), [&](int node) {
      return !wiring_.nodes[node].added() && wiring_.nodes[node].layer->name() == name;
    });
    CAFFE_CHECK(found != level.nodes.end(), Where(layer), "its net has no layer '", parameter.layer,
                "'");
    const std::vector<Slot> all = slots_of(*found);
    if (parameter.index == SubNet::Parameter::kAll) {
      slots.insert(slots.end(), all.begin(), all.end());
      continue;
    }
    CAFFE_CHECK(parameter.index >= 0 && parameter.index < static_cast<int>(all.size()),
                Where(layer), "layer '", name, "' has no parameter ", parameter.index);
    slots.push_back(all[parameter.index]);
  }
  return slots;
}

void NetBuilder::ChangeSpecs(const LayerBase& layer, const std::vector<Slot>& slots, int begin) {
  const LayerParameter& parameter = layer.layer_param();
  CheckParamCount(layer, slots.size());
  for (int i = 0; i < parameter.param_size(); ++i) {
    const std::string name = SpecOf(slots[i]).name();
    const auto change = [&](const Slot& slot) {
      ParamSpec spec = SpecOf(slot);
      spec.MergeFrom(parameter.param(i));
      specs_[slot] = spec;
    };
    change(slots[i]);
    if (name.empty()) continue;
    for (int n = begin; n < static_cast<int>(wiring_.nodes.size()); ++n) {
      if (wiring_.nodes[n].composite) continue;
      const int count = static_cast<int>(wiring_.nodes[n].layer->blobs().size());
      for (int b = 0; b < count; ++b) {
        if (SpecOf({n, b}).name() == name) change({n, b});
      }
    }
  }
}

void NetBuilder::AppendNestedParameters(int begin) {
  const int last = wiring_.last_node();
  const int first = static_cast<int>(wiring_.learnable.size());
  std::map<Slot, int> ids;  // of the blobs, in Wiring::learnable
  for (int n = begin; n < last; ++n) {
    if (wiring_.nodes[n].composite) continue;
    const std::vector<int> own = AppendLearnable(n);
    for (int i = 0; i < static_cast<int>(own.size()); ++i) ids[{n, i}] = own[i];
  }
  OrderLearnable(*wiring_.nodes[last].layer, slots_.at(last), first, &ids);
  for (int n = begin; n <= last; ++n) {
    if (wiring_.nodes[n].composite) TakeNestedBlobs(n);
  }
  for (const Slot& slot : slots_.at(last)) {
    wiring_.learnable_ids.push_back(ids.at(slot));
    wiring_.parameters.push_back(wiring_.nodes[slot.node].layer->blobs()[slot.index]);
  }
}

// A composite layer made blobs only of what its parameter gives: that is the content of its blobs.
void NetBuilder::TakeNestedBlobs(int index) {
  Node& node = wiring_.nodes[index];
  std::vector<std::shared_ptr<BlobBase>> blobs;
  for (const Slot& slot : slots_.at(index)) {
    blobs.push_back(wiring_.nodes[slot.node].layer->blobs()[slot.index]);
    node.lr_mult.push_back(SpecOf(slot).lr_mult());
    wiring_.nested_blobs[blobs.back().get()] = {wiring_.nodes[slot.node].layer.get(), slot.index};
  }
  std::swap(blobs, node.layer->blobs());
  const auto& own = node.layer->blobs();
  CAFFE_CHECK(blobs.empty() || blobs.size() == own.size(), Where(*node.layer), blobs.size(),
              " blobs are given for ", own.size(), " parameters");
  for (size_t i = 0; i < blobs.size(); ++i) {
    CAFFE_CHECK(blobs[i]->shape() == own[i]->shape(), Where(*node.layer), "parameter ", i,
                " has shape ", blobs[i]->shape_string(), ", but the layer needs ",
                own[i]->shape_string());
    own[i]->CopyDataFrom(*blobs[i]);
  }
}

void NetBuilder::OrderLearnable(const LayerBase& layer, const std::vector<Slot>& slots, int first,
                                std::map<Slot, int>* ids) {
  std::map<int, int> moved;  // old index -> new one
  for (const Slot& slot : slots) {
    if (ids->at(slot) >= first)
      moved.emplace(ids->at(slot), first + static_cast<int>(moved.size()));
  }
  for (const auto& [slot, id] : *ids) {
    CAFFE_CHECK(id < first || moved.count(id), Where(layer), "its parameters do not contain blob ",
                slot.index, " of layer '", wiring_.nodes[slot.node].layer->name(), "'");
  }
  const auto order = [&](auto* list) {
    auto ordered = *list;
    for (const auto& [from, to] : moved) ordered[to] = (*list)[from];
    *list = std::move(ordered);
  };
  order(&wiring_.learnable);
  order(&wiring_.lr_mult);
  order(&wiring_.decay_mult);
  for (auto& [slot, id] : *ids) {
    if (id >= first) id = moved.at(id);
  }
  for (auto& [name, owner] : owners_) {
    if (owner.learnable >= first) owner.learnable = moved.at(owner.learnable);
  }
}

}  // namespace caffe

// Composite layers: the layers of their SubNets become nodes of the net.
#include <algorithm>
#include <map>
#include <set>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/graph/passes.hpp"
#include "caffe/layer/layer_types.hpp"
#include "caffe/layer/sub_net.hpp"
#include "caffe/net/run/in_layer.hpp"
#include "net_builder.hpp"

namespace caffe {
namespace {

std::string Where(const LayerParameter& layer) {
  return Concat(layer.name(), " (", layer.type(), "): ");
}

void CheckSubNet(const LayerParameter& layer, const SubNet& sub) {
  CAFFE_CHECK(static_cast<int>(sub.inputs.size()) == layer.bottom_size(), Where(layer),
              "its net names ", sub.inputs.size(), " inputs for ", layer.bottom_size(), " bottoms");
  CAFFE_CHECK(static_cast<int>(sub.outputs.size()) == layer.top_size(), Where(layer),
              "its net names ", sub.outputs.size(), " outputs for ", layer.top_size(), " tops");
}

void CheckBottomCount(const LayerParameter& layer) {
  const LayerTraits& traits = TraitsOf(layer.type());
  const int count = layer.bottom_size();
  CAFFE_CHECK(count >= traits.min_bottom && (traits.max_bottom < 0 || count <= traits.max_bottom),
              Where(layer), "takes ", traits.min_bottom,
              traits.max_bottom < 0                    ? std::string(" or more")
              : traits.max_bottom == traits.min_bottom ? std::string()
                                                       : Concat(" to ", traits.max_bottom),
              " bottom blob(s), but the net gives ", count);
}

// A layer that works in place on an input would overwrite a blob of the parent net: its top, and
// what later layers read, get another name.
void RenameChangedInputs(const std::vector<std::string>& inputs, NetParameter* net,
                         std::vector<std::string>* outputs) {
  std::set<std::string> names(inputs.begin(), inputs.end());
  const std::set<std::string> given = names;
  for (const LayerParameter& layer : net->layer()) {
    names.insert(layer.top().begin(), layer.top().end());
  }
  std::map<std::string, std::string> now;
  const auto rename = [&](std::string* name) {
    const auto found = now.find(*name);
    if (found != now.end()) *name = found->second;
  };
  for (LayerParameter& layer : *net->mutable_layer()) {
    for (std::string& bottom : *layer.mutable_bottom()) rename(&bottom);
    for (std::string& top : *layer.mutable_top()) {
      if (given.count(top) && !now.count(top)) {
        std::string fresh = top + "_changed";
        while (!names.insert(fresh).second) fresh += "_2";
        now[top] = fresh;
      }
      rename(&top);
    }
  }
  for (std::string& output : *outputs) rename(&output);
}

constexpr int64_t kMostExpertNets = 1 << 14;

// The expert nets of a layer, with those of mixtures in its nets; kMostExpertNets + 1 if there are
// more than that.
int64_t CountExpertNets(const LayerParameter& layer) {
  const MOEParameter& mixture = layer.moe_param();
  int64_t count = 0;
  const auto add = [&](const NetParameter& net, int64_t instances, int64_t own) {
    for (const LayerParameter& nested : net.layer()) own += CountExpertNets(nested);
    if (own > 0)
      count += own <= kMostExpertNets / instances ? own * instances : kMostExpertNets + 1;
    count = std::min(count, kMostExpertNets + 1);
  };
  add(mixture.gating_net(), 1, 0);
  for (int i = 0; i < mixture.expert_net_size(); ++i) {
    const bool given = i < mixture.expert_instances_size();
    add(mixture.expert_net(i), std::max<int64_t>(given ? mixture.expert_instances(i) : 1, 1), 1);
  }
  return count;
}

void SetType(DataType type, LayerParameter* layer) {
  layer->clear_bottom_data_type();
  layer->set_top_data_type_name(type.name());
}

// For the passes, a layer writes each input of the net, and a layer reads each output, in the type
// of the composite layer's top.
NetParameter WithEnds(const NetParameter& net, const std::vector<std::string>& inputs,
                      const std::vector<DataType>& types, const std::vector<std::string>& outputs,
                      const TypedLayer& typed) {
  NetParameter whole = net;
  whole.clear_layer();
  for (size_t i = 0; i < inputs.size(); ++i) {
    LayerParameter* layer = whole.add_layer();
    layer->set_name("input");
    layer->set_type("Input");
    layer->add_top(inputs[i]);
    layer->set_phase(net.state().phase());
    SetType(types[i], layer);
  }
  for (const LayerParameter& layer : net.layer()) {
    LayerParameter* added = whole.add_layer();
    *added = layer;
    if (typed.layer.recompute() && !layer.has_recompute()) added->set_recompute(true);
  }
  for (size_t t = 0; t < outputs.size(); ++t) {
    LayerParameter* layer = whole.add_layer();
    layer->set_name("output");
    layer->set_type("Concat");
    layer->add_bottom(outputs[t]);
    layer->add_top(Concat("output ", t));
    layer->set_phase(net.state().phase());
    layer->set_compute_data_type_name(typed.tops[t].name());
  }
  return whole;
}

}  // namespace

void CheckExpertNets(const NetParameter& net) {
  int64_t all = 0;
  for (const LayerParameter& layer : net.layer()) {
    all += CountExpertNets(layer);
    CAFFE_CHECK(all <= kMostExpertNets, Where(layer),
                "has too many expert nets: with those of mixtures "
                "within its nets and of the layers before it there are more than ",
                kMostExpertNets, "; use fewer expert_instances");
  }
}

void NetLevel::Prefix(const std::string& prefix) {
  const auto rename = [&](LayerParameter* layer) {
    layer->set_name(prefix + layer->name());
    for (std::string& bottom : *layer->mutable_bottom()) bottom = prefix + bottom;
    for (std::string& top : *layer->mutable_top()) top = prefix + top;
    for (ParamSpec& spec : *layer->mutable_param()) {
      if (!spec.name().empty()) spec.set_name(prefix + spec.name());
    }
  };
  for (LayerParameter& layer : *filtered.mutable_layer()) rename(&layer);
  for (TypedNet* typed : {&separated, &net}) {
    for (TypedLayer& one : typed->layers) rename(&one.layer);
  }
}

void NetBuilder::Inline(const TypedLayer& typed, CompositeLayer* layer, Node* node) {
  CheckBottomCount(typed.layer);
  BlobVec bottom;
  for (const int id : node->bottom_ids) bottom.push_back(wiring_.blobs[id].get());
  SubNet sub;
  InLayer(*layer, [&] { sub = layer->Expand(bottom, typed.layer.top_size()); });
  CheckSubNet(typed.layer, sub);
  std::vector<std::string> inputs;
  std::vector<DataType> types;
  std::map<std::string, int> ids;
  for (size_t b = 0; b < sub.inputs.size(); ++b) {
    if (sub.inputs[b].empty()) continue;
    const bool added = ids.emplace(sub.inputs[b], node->bottom_ids[b]).second;
    CAFFE_CHECK(added, Where(typed.layer), "two inputs of its net are called '", sub.inputs[b],
                "'");
    inputs.push_back(sub.inputs[b]);
    types.push_back(bottom[b]->type());
  }
  RenameChangedInputs(inputs, sub.net.get(), &sub.outputs);
  sub.net->mutable_state()->CopyFrom(wiring_.parameter->state());
  sub.net->set_force_backward(wiring_.parameter->force_backward());
  if (!sub.net->has_data_type() && !sub.net->has_data_type_name()) {
    sub.net->set_data_type_name(typed.types.compute.name());
  }
  // Another composite layer may have the same name.
  std::string prefix = typed.layer.name() + "/";
  for (int n = 2; !prefixes_.insert(prefix).second; ++n) {
    prefix = Concat(typed.layer.name(), "#", n, "/");
  }
  const int begin = static_cast<int>(wiring_.nodes.size());
  InLayer(*layer, [&] {
    const NetParameter filtered = FilterNet(*sub.net);
    CheckLayerTypes(filtered);
    NetLevel level(WithEnds(filtered, inputs, types, sub.outputs, typed));
    level.Prefix(prefix);
    for (const auto& [name, id] : ids) {
      CAFFE_CHECK(blob_ids_.emplace(prefix + name, id).second, "blob '", prefix + name,
                  "' exists already; give it another name");
    }
    ++depth_;
    AddNestedNodes(&level, inputs.size(), node);
    --depth_;
    for (const auto& [name, id] : ids) blob_ids_.erase(prefix + name);
    const std::vector<Slot> slots = FindSlots(sub, level, prefix, *layer);
    ChangeSpecs(*layer, slots, begin);
    slots_[static_cast<int>(wiring_.nodes.size())] = slots;
  });
  LimitGradients(typed.layer, begin, *node);
  std::vector<std::shared_ptr<LayerBase>> nested;
  for (int n = begin; n <= wiring_.last_node(); ++n) {
    wiring_.nodes[n].fixed_ranges = layer->fixed_ranges();
    if (!wiring_.nodes[n].added()) nested.push_back(wiring_.nodes[n].layer);
  }
  layer->SetInNet(static_cast<int>(node->bottom_ids.size()));
  InLayer(*layer, [&] { layer->Connect(nested); });
}

void NetBuilder::AddNestedNodes(NetLevel* level, size_t inputs, Node* node) {
  NoteShownNames(*level);
  const size_t layers = level->separated.layers.size(), outputs = node->top_ids.size();
  node->composite = true;
  std::swap(node->own_bottom_ids, node->bottom_ids);
  size_t own = 0;  // layers so far that no pass added
  for (const TypedLayer& typed : level->net.layers) {
    if (!typed.added && (own < inputs || own >= layers - outputs)) {
      level->nodes_of_layers.push_back(-1);
      if (own++ >= inputs) node->bottom_ids.push_back(blob_ids_.at(typed.layer.bottom(0)));
      continue;
    }
    own += !typed.added;
    AddNode(typed, level);
  }
  FindConflicts(*level);
  FindOrigins(*level);
}

void NetBuilder::LimitGradients(const LayerParameter& layer, int begin, const Node& node) {
  const LayerTraits& traits = TraitsOf(layer.type());
  using Propagation = Node::Propagation;
  std::map<int, Propagation> limits;  // of the layer's bottoms
  for (int b = 0; b < layer.bottom_size(); ++b) {
    const auto& never = traits.no_gradient_bottoms;
    Propagation limit = Propagation::kAsNeeded;
    if (b < layer.propagate_down_size()) {
      limit = layer.propagate_down(b) ? Propagation::kYes : Propagation::kNo;
    }
    if (std::find(never.begin(), never.end(), b) != never.end()) limit = Propagation::kNever;
    if (limit != Propagation::kAsNeeded) limits[node.own_bottom_ids[b]] = limit;
  }
  for (int n = begin; n <= wiring_.last_node(); ++n) {
    Node& nested = wiring_.nodes[n];
    nested.propagation.resize(nested.bottom_ids.size(), Propagation::kAsNeeded);
    for (size_t b = 0; b < nested.bottom_ids.size(); ++b) {
      const auto found = limits.find(nested.bottom_ids[b]);
      if (found == limits.end()) continue;
      nested.propagation[b] = std::max(nested.propagation[b], found->second);
    }
  }
}

}  // namespace caffe

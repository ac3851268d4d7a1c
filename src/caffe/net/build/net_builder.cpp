#include "net_builder.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/core/out_of_memory.hpp"
#include "caffe/core/random.hpp"
#include "caffe/graph/passes.hpp"
#include "caffe/graph/typed_net.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/layer_types.hpp"
#include "caffe/layer/sub_net.hpp"
#include "caffe/layer/type_of_top.hpp"
#include "caffe/memory/workspace.hpp"
#include "caffe/net/run/in_layer.hpp"
#include "class_tops.hpp"
#include "ignored_settings.hpp"

namespace caffe {
namespace {

// One line if a net converts between types.
void LogCasts(const NetLevel& level) {
  if (level.casts == 0 && level.casts_omitted == 0) return;
  log::Info(Concat("Casts between types: ", level.casts, "; ", level.casts_omitted,
                   " more are loads and stores of other layers, and ", level.casts_moved,
                   " moved to where there are fewer elements"));
}

void WarnOfEqualNames(const NetParameter& net) {
  std::map<std::string, int> counts;
  for (const LayerParameter& layer : net.layer()) ++counts[layer.name()];
  for (const auto& [name, count] : counts) {
    if (count == 1) continue;
    log::Warning(Concat("net ", net.name(), ": ", count, " layers ",
                        name.empty() ? "have no name" : "are called '" + name + "'",
                        ". In files of weights they match in their order; HDF5 files cannot store "
                        "them, and in Python a name finds one of them"));
  }
}

}  // namespace

NetLevel::NetLevel(NetParameter filtered_net) : filtered(std::move(filtered_net)) {
  separated = SeparateInPlace(MoveCasts(AssignTypes(filtered)));
  const TypedNet cast = InsertCasts(separated);
  net = InsertSplits(cast);
  casts = static_cast<int>(std::count_if(cast.layers.begin(), cast.layers.end(),
                                         [](const TypedLayer& typed) { return typed.added; }));
  casts_omitted = cast.casts_omitted;
  casts_moved = cast.casts_moved;
  for (LayerParameter& layer : *filtered.mutable_layer()) layer.clear_blobs();
}

NetBuilder::NetBuilder(Device* device, uint64_t seed, const LayerLines& lines)
    : device_(device), seed_(seed), lines_(lines) {}

Wiring NetBuilder::Build(const NetParameter& given) {
  wiring_.name = given.name();
  wiring_.phase = given.state().phase();
  wiring_.workspace = std::make_unique<Workspace>(device_, "workspace of net " + wiring_.name);
  std::vector<int> kept;
  wiring_.parameter = std::make_unique<NetParameter>(FilterNet(given, &kept));
  NetParameter& filtered = *wiring_.parameter;
  filtered.clear_weights_id();  // of a file that was given as the net
  WarnOfEqualNames(filtered);
  CheckLayerTypes(filtered, lines_.Of(kept));
  CheckExpertNets(filtered);
  NetLevel level(filtered);
  LogCasts(level);
  for (LayerParameter& layer : *filtered.mutable_layer()) layer.clear_blobs();
  NoteShownNames(level);
  WarnOfIgnoredSettings(filtered, *device_);
  log::Info("Initializing net from parameters: \n" + filtered.DebugString());
  if (log::Topic("passes")) log::Info("net after the passes:\n" + level.net.ToString());
  for (const TypedLayer& typed : level.net.layers) AddNode(typed, &level);
  FindConflicts(level);
  FindOrigins(level);
  ListForUser();
  FindClassTops(wiring_);
  return std::move(wiring_);
}

void NetBuilder::Log(const std::string& line) const {
  depth_ > 0 ? log::Debug(line) : log::Info(line);
}

void NetBuilder::NoteShownNames(const NetLevel& level) {
  for (int i = 0; i < level.filtered.layer_size(); ++i) {
    const LayerParameter& layer = level.filtered.layer(i);
    for (int t = 0; t < layer.top_size(); ++t) {
      shown_names_[level.separated.layers[i].layer.top(t)] = layer.top(t);
    }
  }
}

const std::string& NetBuilder::Shown(const std::string& blob) const {
  const auto found = shown_names_.find(blob);
  return found == shown_names_.end() ? blob : found->second;
}

void NetBuilder::AddNode(const TypedLayer& typed, NetLevel* level) {
  const LayerParameter& layer = typed.layer;
  Log("Creating Layer " + layer.name());
  const int begin = static_cast<int>(wiring_.nodes.size());
  Node node;
  node.by_pass = typed.added;
  node.nested_in = depth_ > 0 ? 0 : -1;  // set by ListForUser
  FindBottoms(layer, &node);
  MakeTops(typed, &node);
  LayerContext context;
  context.device = device_;
  context.types = typed.types;
  context.seed = SeedOfPart(seed_, wiring_.nodes.size());
  context.workspace = wiring_.workspace.get();
  node.layer = NamingMemory(Concat(layer.name(), " (", layer.type(), ")"),
                            [&] { return LayerRegistry::Get().Create(layer, context); });
  if (auto* composite = dynamic_cast<CompositeLayer*>(node.layer.get())) {
    Inline(typed, composite, &node);
  }
  SetUp(typed, &node);
  const int index = static_cast<int>(wiring_.nodes.size());
  level->nodes.push_back(index);
  if (!typed.added) level->nodes_of_layers.push_back(index);
  wiring_.nodes.push_back(std::move(node));
  if (depth_ > 0) return;
  wiring_.nodes.back().composite ? AppendNestedParameters(begin) : AppendParameters(index);
}

void NetBuilder::SetUp(const TypedLayer& typed, Node* node) {
  for (int id : node->bottom_ids) node->bottom.push_back(wiring_.blobs[id].get());
  for (int id : node->top_ids) node->top.push_back(wiring_.blobs[id].get());
  for (const BlobVec* blobs : {&node->bottom, &node->top}) {
    for (const BlobBase* blob : *blobs) {
      node->quantized = node->quantized || blob->type().is_quantized();
    }
  }
  Log("Setting up " + typed.layer.name());
  LayerTraits traits = LayerRegistry::Get().Traits(typed.layer.type());
  if (node->composite) {
    traits.min_bottom = traits.max_bottom = static_cast<int>(node->bottom.size());
  }
  InLayer(*node->layer, [&] { node->layer->SetUp(traits, node->bottom, node->top); });
  for (size_t t = 0; t < node->top.size(); ++t) {
    Log("Top shape: " + node->top[t]->shape_string());
    const float weight = node->layer->loss_weight(static_cast<int>(t));
    if (weight != 0) Log(Concat("    with loss weight ", weight));
  }
}

void NetBuilder::FindBottoms(const LayerParameter& layer, Node* node) {
  for (int b = 0; b < layer.bottom_size(); ++b) {
    const auto found = blob_ids_.find(layer.bottom(b));
    CAFFE_CHECK(found != blob_ids_.end(), "Unknown bottom blob '", layer.bottom(b), "' (layer '",
                layer.name(), "', bottom index ", b, ")");
    Log(layer.name() + " <- " + Shown(layer.bottom(b)));
    node->bottom_ids.push_back(found->second);
  }
}

void NetBuilder::MakeTops(const TypedLayer& typed, Node* node) {
  const LayerParameter& layer = typed.layer;
  const LayerTraits& traits = LayerRegistry::Get().Traits(layer.type());
  const auto make = [&](DataType type, const std::string& name) {
    node->top_ids.push_back(static_cast<int>(wiring_.blobs.size()));
    wiring_.blobs.push_back(MakeBlob(type, device_, {0}, name));
  };
  for (int t = 0; t < layer.top_size(); ++t) {
    const std::string& top = layer.top(t);
    if (t < layer.bottom_size() && layer.bottom(t) == top) {
      CAFFE_CHECK(traits.in_place || typed.added, layer.name(), " (", layer.type(),
                  "): cannot work in place; give blob '", top, "' another name as top");
      Log(layer.name() + " -> " + Shown(top) + " (in-place)");
      node->top_ids.push_back(node->bottom_ids[t]);
      continue;
    }
    CAFFE_CHECK(blob_ids_.count(top) == 0, "Top blob '", top,
                "' produced by multiple sources (layer '", layer.name(), "')");
    const bool apart = t < layer.bottom_size() && Shown(layer.bottom(t)) == Shown(top);
    Log(layer.name() + " -> " + Shown(top) + (apart ? " (separate memory)" : ""));
    blob_ids_[top] = static_cast<int>(wiring_.blobs.size());
    make(typed.tops[t], top);
  }
  // A loss without a named top still needs memory for its value, which no layer can read.
  for (int t = layer.top_size(); traits.loss && t < traits.min_top; ++t) {
    Log(layer.name() + " -> (automatic)");
    make(TypeOfTop(traits, t, typed.types.out), "(automatic)");
  }
}

void NetBuilder::FindConflicts(const NetLevel& level) {
  if (level.separated.keeps_gradients) return;
  for (const InPlaceConflict& conflict : FindGradientConflicts(level.separated)) {
    const int reader = level.nodes_of_layers[conflict.reader];
    const int writer = level.nodes_of_layers[conflict.layer];
    if (reader < 0 || writer < 0) continue;
    wiring_.gradient_conflicts.push_back({reader, writer, conflict.reason});
  }
}

void NetBuilder::FindOrigins(const NetLevel& level) {
  std::set<std::string> tops;
  for (const TypedLayer& typed : level.separated.layers) {
    for (const std::string& top : typed.layer.top()) tops.insert(top);
  }
  for (const int index : level.nodes) {
    Node& node = wiring_.nodes[index];
    if (!node.added()) continue;
    // A cast's top stands for its bottom's user blob, unless the cast writes the layer's own top.
    for (size_t t = 0; t < node.top_ids.size(); ++t) {
      if (!tops.count(node.top[t]->name())) {
        wiring_.origins[node.top_ids[t]] = node.bottom_ids[0];
      } else if (!tops.count(node.bottom[0]->name())) {
        node.makes_top = true;
        // A split may lie between the layer's own top and the cast.
        const int own = wiring_.UserBlob(node.bottom_ids[0]);
        if (!tops.count(wiring_.blobs[own]->name())) wiring_.origins[own] = node.top_ids[t];
      }
    }
  }
  for (int i = 0; i < level.filtered.layer_size(); ++i) {
    for (int t = 0; t < level.filtered.layer(i).top_size(); ++t) {
      const std::string& own = level.separated.layers[i].layer.top(t);
      const std::string& user = level.filtered.layer(i).top(t);
      if (own == user) continue;
      const int id = blob_ids_.at(own);
      wiring_.origins[id] = wiring_.versions[id] = blob_ids_.at(user);
    }
  }
}

void NetBuilder::ListForUser() {
  Wiring& w = wiring_;
  std::map<int, int> indices;  // blob -> blob of the user
  std::vector<bool> read(w.blobs.size(), false);
  std::vector<float> weights(w.blobs.size(), 0.f);
  for (const Node& node : w.nodes) {
    if (node.nested_in >= 0) continue;
    for (size_t t = 0; t < node.top_ids.size(); ++t) {
      const int id = w.UserBlob(node.top_ids[t]);
      weights[id] += node.layer->loss_weight(static_cast<int>(t));
      if (indices.emplace(id, static_cast<int>(w.user_blobs.size())).second) {
        w.user_blobs.push_back(w.blobs[id]);
        w.user_blob_names.push_back(w.blobs[id]->name());
      }
    }
  }
  int nested = 0;  // nodes before this one
  for (size_t n = 0; n < w.nodes.size(); ++n) {
    Node& node = w.nodes[n];
    if (node.nested_in >= 0) {
      ++nested;
      node.nested_in = static_cast<int>(w.layers.size());
      continue;
    }
    if (node.added()) continue;
    node.layer_index = static_cast<int>(w.layers.size());
    w.layer_nodes.push_back(static_cast<int>(n));
    w.layer_begins.push_back(static_cast<int>(n) - nested);
    nested = 0;
    w.layers.push_back(node.layer);
    w.layer_names.push_back(node.layer->name());
    std::vector<int> bottoms, tops;
    for (int id : node.named_bottom_ids()) {
      bottoms.push_back(indices.at(w.UserBlob(id)));
      read[w.UserBlob(id)] = true;
    }
    const int named = node.layer->layer_param().top_size();
    for (size_t t = 0; t < node.top_ids.size(); ++t) {
      const int id = w.UserBlob(node.top_ids[t]);
      tops.push_back(indices.at(id));
      // In place: no layer has read this version yet. Blobs without a name are not outputs.
      read[id] = static_cast<int>(t) >= named;
    }
    const bool input = LayerRegistry::Get().Traits(node.layer->type()).input;
    if (input) w.inputs.insert(w.inputs.end(), tops.begin(), tops.end());
    w.bottom_ids.push_back(std::move(bottoms));
    w.top_ids.push_back(std::move(tops));
  }
  std::map<std::string, int> outputs;  // alphabetical, in BVLC's order
  w.loss_weights.resize(w.user_blobs.size(), 0.f);
  for (const auto& [id, index] : indices) {
    if (!read[id]) outputs[w.user_blob_names[index]] = index;
    w.loss_weights[index] = weights[id];
  }
  for (const auto& [name, index] : outputs) w.outputs.push_back(index);
  w.NameRanges();
}

}  // namespace caffe

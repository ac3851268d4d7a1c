#include "net_builder.hpp"

#include <set>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/graph/passes.hpp"
#include "caffe/graph/typed_net.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/layer_types.hpp"
#include "caffe/memory/workspace.hpp"
#include "ignored_settings.hpp"
#include "in_layer.hpp"

namespace caffe {
namespace {

// An independent seed for each layer: splitmix64 of the net's seed and the layer's index.
uint64_t LayerSeed(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// One line if a net converts between types.
void LogCasts(const TypedNet& net) {
  const auto casts = std::count_if(net.layers.begin(), net.layers.end(),
                                   [](const TypedLayer& typed) { return typed.added; });
  if (casts == 0 && net.casts_omitted == 0) return;
  log::Info(Concat("Casts between types: ", casts, "; ", net.casts_omitted,
                   " more are loads and stores of other layers, and ", net.casts_moved,
                   " moved to where there are fewer elements"));
}

}  // namespace

NetBuilder::NetBuilder(Device* device, uint64_t seed, const LayerLines& lines)
    : device_(device), seed_(seed), lines_(lines) {}

Wiring NetBuilder::Build(const NetParameter& given) {
  wiring_.name = given.name();
  wiring_.phase = given.state().phase();
  wiring_.workspace = std::make_unique<Workspace>(device_, "workspace of net " + wiring_.name);
  std::vector<int> kept;
  wiring_.parameter = std::make_unique<NetParameter>(FilterNet(given, &kept));
  NetParameter& filtered = *wiring_.parameter;
  CheckLayerTypes(filtered, lines_.Of(kept));
  const TypedNet separated = SeparateInPlace(MoveCasts(AssignTypes(filtered)));
  const TypedNet cast = InsertCasts(separated);
  const TypedNet net = InsertSplits(cast);
  LogCasts(cast);
  if (!separated.keeps_gradients) {
    for (const InPlaceConflict& conflict : FindInPlaceConflicts(separated, true)) {
      if (conflict.reader < 0) continue;
      wiring_.gradient_conflicts.push_back({conflict.reader, conflict.layer, conflict.reason});
    }
  }
  for (LayerParameter& layer : *filtered.mutable_layer()) layer.clear_blobs();
  for (int i = 0; i < filtered.layer_size(); ++i) {
    for (int t = 0; t < filtered.layer(i).top_size(); ++t) {
      shown_names_[separated.layers[i].layer.top(t)] = filtered.layer(i).top(t);
    }
  }
  WarnOfIgnoredSettings(filtered, *device_);
  log::Info("Initializing net from parameters: \n" + filtered.DebugString());
  if (log::Topic("passes")) log::Info("net after the passes:\n" + net.ToString());
  for (const TypedLayer& typed : net.layers) {
    wiring_.nodes.push_back(MakeNode(typed));
    AppendParameters(wiring_.nodes.back());
  }
  FindOrigins(separated);
  ListForUser();
  return std::move(wiring_);
}

const std::string& NetBuilder::Shown(const std::string& blob) const {
  const auto found = shown_names_.find(blob);
  return found == shown_names_.end() ? blob : found->second;
}

Node NetBuilder::MakeNode(const TypedLayer& typed) {
  const LayerParameter& layer = typed.layer;
  const LayerTraits& traits = LayerRegistry::Get().Traits(layer.type());
  log::Info("Creating Layer " + layer.name());
  Node node;
  FindBottoms(layer, &node);
  MakeTops(typed, &node);
  for (int id : node.bottom_ids) node.bottom.push_back(wiring_.blobs[id].get());
  for (int id : node.top_ids) node.top.push_back(wiring_.blobs[id].get());
  for (const BlobVec* blobs : {&node.bottom, &node.top}) {
    for (const BlobBase* blob : *blobs) {
      node.quantized = node.quantized || blob->type().is_quantized();
    }
  }

  LayerContext context;
  context.device = device_;
  context.types = typed.types;
  context.seed = LayerSeed(seed_, wiring_.nodes.size());
  context.workspace = wiring_.workspace.get();
  log::Info("Setting up " + layer.name());
  node.layer = LayerRegistry::Get().Create(layer, context);
  InLayer(*node.layer, [&] { node.layer->SetUp(traits, node.bottom, node.top); });
  for (size_t t = 0; t < node.top.size(); ++t) {
    log::Info("Top shape: " + node.top[t]->shape_string());
    const float weight = node.layer->loss_weight(static_cast<int>(t));
    if (weight != 0) log::Info(Concat("    with loss weight ", weight));
  }
  node.layer_index = typed.added ? -1 : 0;  // set by ListForUser
  return node;
}

void NetBuilder::FindBottoms(const LayerParameter& layer, Node* node) {
  for (int b = 0; b < layer.bottom_size(); ++b) {
    const auto found = blob_ids_.find(layer.bottom(b));
    CAFFE_CHECK(found != blob_ids_.end(), "Unknown bottom blob '", layer.bottom(b), "' (layer '",
                layer.name(), "', bottom index ", b, ")");
    log::Info(layer.name() + " <- " + Shown(layer.bottom(b)));
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
      log::Info(layer.name() + " -> " + Shown(top) + " (in-place)");
      node->top_ids.push_back(node->bottom_ids[t]);
      continue;
    }
    CAFFE_CHECK(blob_ids_.count(top) == 0, "Top blob '", top,
                "' produced by multiple sources (layer '", layer.name(), "')");
    const bool apart = t < layer.bottom_size() && Shown(layer.bottom(t)) == Shown(top);
    log::Info(layer.name() + " -> " + Shown(top) + (apart ? " (separate memory)" : ""));
    blob_ids_[top] = static_cast<int>(wiring_.blobs.size());
    make(typed.tops[t], top);
  }
  // A loss without a named top still needs memory for its value, which no layer can read.
  for (int t = layer.top_size(); traits.loss && t < traits.min_top; ++t) {
    log::Info(layer.name() + " -> (automatic)");
    make(typed.types.out, "(automatic)");
  }
}

void NetBuilder::AppendParameters(const Node& node) {
  LayerBase* const layer = node.layer.get();
  const LayerParameter& parameter = layer->layer_param();
  const int count = static_cast<int>(layer->blobs().size());
  CAFFE_CHECK(parameter.param_size() <= count, layer->name(), " (", layer->type(), "): has ", count,
              " parameters, ", parameter.param_size(), " param entries are given");
  bool replaced = false;
  for (int i = 0; i < count; ++i) {
    const ParamSpec spec = i < parameter.param_size() ? parameter.param(i) : ParamSpec();
    int id = static_cast<int>(wiring_.learnable.size());
    if (!spec.name().empty() && owners_.count(spec.name())) {
      replaced = Share(layer, i, spec) || replaced;
      id = owners_.at(spec.name()).learnable;
    } else {
      if (!spec.name().empty()) {
        owners_[spec.name()] = {layer->name(),        i, id, layer->blobs()[i], spec.has_lr_mult(),
                                spec.has_decay_mult()};
      }
      wiring_.learnable.push_back(layer->blobs()[i].get());
      wiring_.lr_mult.push_back(spec.lr_mult());
      wiring_.decay_mult.push_back(spec.decay_mult());
    }
    wiring_.parameters.push_back(layer->blobs()[i]);
    wiring_.learnable_ids.push_back(id);
  }
  // The layer sets itself up again with the blobs that it has now, as after a move.
  if (replaced) InLayer(*layer, [&] { layer->MoveToDevice(device_, node.bottom, node.top); });
}

bool NetBuilder::Share(LayerBase* layer, int index, const ParamSpec& spec) {
  Owner& own = owners_.at(spec.name());
  std::shared_ptr<BlobBase>& blob = layer->blobs()[index];
  log::Info(Concat("Sharing parameters '", spec.name(), "' owned by layer '", own.layer,
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

void NetBuilder::FindOrigins(const TypedNet& separated) {
  std::set<std::string> tops;
  for (const TypedLayer& typed : separated.layers) {
    for (const std::string& top : typed.layer.top()) tops.insert(top);
  }
  for (Node& node : wiring_.nodes) {
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
  for (int i = 0; i < wiring_.parameter->layer_size(); ++i) {
    for (int t = 0; t < wiring_.parameter->layer(i).top_size(); ++t) {
      const std::string& own = separated.layers[i].layer.top(t);
      const std::string& user = wiring_.parameter->layer(i).top(t);
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
    for (size_t t = 0; t < node.top_ids.size(); ++t) {
      const int id = w.UserBlob(node.top_ids[t]);
      weights[id] += node.layer->loss_weight(static_cast<int>(t));
      if (indices.emplace(id, static_cast<int>(w.user_blobs.size())).second) {
        w.user_blobs.push_back(w.blobs[id]);
        w.user_blob_names.push_back(w.blobs[id]->name());
      }
    }
  }
  for (size_t n = 0; n < w.nodes.size(); ++n) {
    Node& node = w.nodes[n];
    if (node.added()) continue;
    node.layer_index = static_cast<int>(w.layers.size());
    w.layer_nodes.push_back(static_cast<int>(n));
    w.layers.push_back(node.layer);
    w.layer_names.push_back(node.layer->name());
    std::vector<int> bottoms, tops;
    for (int id : node.bottom_ids) {
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
}

}  // namespace caffe

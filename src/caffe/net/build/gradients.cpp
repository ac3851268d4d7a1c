#include "gradients.hpp"

#include <algorithm>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/io/unknown_names.hpp"

namespace caffe {
namespace {

bool Has(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

std::string Named(const LayerBase& layer) {
  return "layer '" + layer.name() + "' (" + layer.type() + ")";
}

bool InCodes(const LayerBase& layer) {
  const TypeTriple& types = layer.types();
  return types.compute.is_quantized() || types.in.is_quantized() || types.out.is_quantized();
}

bool InPlace(const Node& node) {
  return !node.top_ids.empty() && Has(node.bottom_ids, node.top_ids[0]);
}

// Whether a top of `node` is a loss, or a wanted blob depends on it.
bool Contributes(const Node& node, const std::vector<bool>& wanted) {
  for (size_t t = 0; t < node.top_ids.size(); ++t) {
    if (wanted[node.top_ids[t]] || node.layer->loss_weight(static_cast<int>(t)) != 0) return true;
  }
  return false;
}

// The parameter whose propagate_down holds for the node's bottoms; of the user's layers without the
// changes of passes.
const LayerParameter& ParameterOf(const Wiring& wiring, const Node& node) {
  return node.layer_index >= 0 ? wiring.parameter->layer(node.layer_index)
                               : node.layer->layer_param();
}

void CheckCount(const LayerParameter& parameter, size_t bottoms) {
  const int given = parameter.propagate_down_size();
  CAFFE_CHECK(given == 0 || given == static_cast<int>(bottoms), parameter.name(), " (",
              parameter.type(), "): propagate_down has ", given, " entries for ", bottoms,
              " bottoms");
}

// Whether Backward writes the gradient of a bottom, if the layers before it have one (`known`).
bool Propagates(const Node& node, int b, const LayerParameter& parameter, bool known, bool force) {
  const LayerTraits& traits = TraitsOf(parameter.type());
  using Propagation = Node::Propagation;
  const Propagation outer = node.propagation.empty() ? Propagation::kAsNeeded : node.propagation[b];
  bool gradient = known;
  // The bottoms of a composite layer's node are not those that its parameter names.
  if (parameter.propagate_down_size() > 0 && !node.composite)
    gradient = parameter.propagate_down(b);
  if (outer == Propagation::kYes) gradient = true;
  if (outer == Propagation::kNo) gradient = false;
  if (force) gradient = true;
  const bool never = !node.composite && Has(traits.no_gradient_bottoms, b);
  return gradient && !never && outer != Propagation::kNever && traits.backward;
}

}  // namespace

Gradients::Gradients(const Wiring& wiring) : wiring_(wiring), nodes_(wiring.nodes.size()) {
  Decide();
}

void Gradients::Decide() {
  const bool force = wiring_.parameter->force_backward();
  std::vector<bool> has_gradient(wiring_.blobs.size(), false);
  // Blobs that depend on one whose gradient was requested.
  std::vector<bool> reached(wiring_.blobs.size(), false);
  const auto requested = [&](int id) { return requested_.count(wiring_.UserBlob(id)) > 0; };
  // Forward: find the blobs that can have a gradient.
  for (size_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = wiring_.nodes[n];
    NodeGradients& gradients = nodes_[n];
    const LayerParameter& parameter = ParameterOf(wiring_, node);
    CheckCount(parameter, node.named_bottom_ids().size());
    bool need = false, from_requested = false;
    gradients.bottoms.clear();
    for (size_t b = 0; b < node.bottom.size(); ++b) {
      const int id = node.bottom_ids[b];
      const bool gradient =
          Propagates(node, static_cast<int>(b), parameter, has_gradient[id], force);
      gradients.bottoms.push_back(gradient);
      need = need || gradient;
      from_requested = from_requested || (gradient && (reached[id] || requested(id)));
    }
    for (size_t p = 0; p < node.layer->blobs().size(); ++p) {
      const bool gradient = node.lr_mult[p] != 0 || force;
      node.layer->set_param_propagate_down(static_cast<int>(p), gradient);
      need = need || (gradient && !node.composite);
    }
    gradients.needed = need && TraitsOf(parameter.type()).backward;
    for (int id : node.top_ids) {
      has_gradient[id] = gradients.needed || requested(id);
      reached[id] = from_requested;
    }
  }
  // Backward: find the blobs that contribute to a loss (all under force_backward), and those that
  // depend on a blob whose gradient was requested: for these the caller gives the diffs of the
  // outputs.
  std::vector<bool> useful = reached;
  for (size_t n = nodes_.size(); n-- > 0;) {
    const Node& node = wiring_.nodes[n];
    NodeGradients& gradients = nodes_[n];
    if (!force && !Contributes(node, useful)) gradients.needed = false;
    if (!gradients.needed) gradients.bottoms.assign(node.bottom.size(), false);
    for (size_t b = 0; b < node.bottom.size(); ++b) {
      if (gradients.bottoms[b]) useful[node.bottom_ids[b]] = true;
    }
    node.layer->set_need_backward(gradients.needed);
  }
}

std::vector<bool> Gradients::NeededNodes() const {
  std::vector<bool> needed;
  for (const NodeGradients& node : nodes_) needed.push_back(node.needed);
  return needed;
}

bool Gradients::any() const {
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [](const NodeGradients& node) { return node.needed; });
}

bool Gradients::narrow() const {
  for (size_t n = 0; n < nodes_.size(); ++n) {
    const TypeTriple types = wiring_.nodes[n].layer->types();
    for (const DataType type : {types.compute, types.in, types.out}) {
      if (nodes_[n].needed && (type == kHalf || type == kBfloat16 || type.is_custom())) return true;
    }
  }
  return false;
}

void Gradients::CheckTrainable() const {
  for (size_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = wiring_.nodes[n];
    const LayerBase& layer = *node.layer;
    CAFFE_CHECK(!nodes_[n].needed || node.added() || !layer.types().compute.is_quantized(),
                layer.name(), " (", layer.type(), "): has no backward pass in ",
                layer.types().compute.name(),
                "; train in a float type, observe ranges, and quantize afterwards");
    for (const DataType type : {layer.types().in, layer.types().out}) {
      CAFFE_CHECK(!nodes_[n].needed || !(type.is_scaled() || type.is_packed()), layer.name(), " (",
                  layer.type(), "): data type '", type.name(), "' ",
                  type.is_scaled() ? "has a scale for each blob, which gradients have not"
                                   : "is packed, which gradients are not",
                  "; train in a float type, and use the type afterwards");
    }
  }
}

// Returns "" if Backward computes the requested gradient of this blob of the user: layers in float
// must lead from the blob to a loss or an output. Otherwise returns the reason.
std::string Gradients::WhyNone(int id) const {
  // From the blob: find the blobs that depend on it through layers with a gradient, and the first
  // layer without one.
  std::vector<bool> reached(wiring_.blobs.size(), false);
  std::string obstacle, codes;
  bool begun = false;
  for (size_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = wiring_.nodes[n];
    const LayerTraits& traits = TraitsOf(node.layer->type());
    bool passes = false;
    for (size_t b = 0; b < node.bottom.size(); ++b) {
      if (!reached[node.bottom_ids[b]]) continue;
      if (nodes_[n].bottoms[b]) {
        passes = true;
        if (InCodes(*node.layer) && codes.empty()) codes = Named(*node.layer);
      } else if (obstacle.empty() && !node.added()) {
        if (!traits.backward) {
          obstacle = Named(*node.layer) + " has no backward pass";
        } else if (Has(traits.no_gradient_bottoms, static_cast<int>(b))) {
          obstacle = Concat(Named(*node.layer), " has no gradient for its bottom ", b, ", labels");
        } else if (!node.propagation.empty() && node.propagation[b] == Node::Propagation::kNever) {
          obstacle = Named(*node.layer) + " reads it as data without a gradient";
        } else if (node.layer->layer_param().propagate_down_size() > 0) {
          obstacle = Concat(Named(*node.layer), " has propagate_down: false for its bottom ", b);
        }
      }
    }
    for (int top : node.top_ids) {
      const bool first = !begun && wiring_.UserBlob(top) == id;
      begun = begun || first;
      reached[top] = first || passes;
    }
  }
  if (!codes.empty()) return codes + " is quantized; run backward in a float type";
  // From the outputs and losses: test whether a path ends there.
  std::vector<bool> leads(wiring_.blobs.size(), false);
  for (int output : wiring_.outputs) {
    for (size_t i = 0; i < wiring_.blobs.size(); ++i) {
      if (wiring_.blobs[i] == wiring_.user_blobs[output]) leads[i] = true;
    }
  }
  for (size_t n = nodes_.size(); n-- > 0;) {
    const Node& node = wiring_.nodes[n];
    const bool any = node.top_ids.empty() || Contributes(node, leads);
    for (size_t b = 0; b < node.bottom_ids.size(); ++b) {
      const int bottom = node.bottom_ids[b];
      if (Has(node.top_ids, bottom)) leads[bottom] = false;
      if (nodes_[n].bottoms[b] && any) leads[bottom] = true;
    }
  }
  // `leads` now describes the first version of each blob.
  for (const Node& node : wiring_.nodes) {
    for (int top : node.top_ids) {
      if (wiring_.UserBlob(top) != id) continue;
      if (leads[top]) return "";
      return obstacle.empty() ? "no loss or output depends on it" : obstacle;
    }
  }
  return "no layer writes it";
}

bool Gradients::Request(const std::string& name, std::string* why) {
  const auto found =
      std::find(wiring_.user_blob_names.begin(), wiring_.user_blob_names.end(), name);
  CAFFE_CHECK(found != wiring_.user_blob_names.end(), NetLabel(wiring_.name), " has no blob '",
              name, "'");
  const auto& blob = wiring_.user_blobs[found - wiring_.user_blob_names.begin()];
  const int id = static_cast<int>(std::find(wiring_.blobs.begin(), wiring_.blobs.end(), blob) -
                                  wiring_.blobs.begin());
  if (requested_.count(id)) return true;
  const auto refused = refused_.find(name);
  if (refused != refused_.end()) {
    *why = refused->second;
    return false;
  }
  requested_.insert(id);
  Decide();
  *why = WhyNone(id);
  if (why->empty()) return true;
  requested_.erase(id);
  Decide();
  refused_[name] = *why;
  return false;
}

void Gradients::Restore(const std::set<int>& requested) {
  requested_ = requested;
  Decide();
}

// A net in phase TEST keeps no data for gradients, so throw instead of computing wrong gradients.
void Gradients::CheckConflicts() const {
  for (const Wiring::GradientConflict& conflict : wiring_.gradient_conflicts) {
    if (!nodes_[conflict.reader].needed) continue;
    const LayerBase& writer = *wiring_.nodes[conflict.writer].layer;
    CAFFE_THROW(NetLabel(wiring_.name), ": ", writer.name(), " (", writer.type(),
                "): works in place, but ", conflict.reason, ", and nets in phase TEST keep no ",
                "memory for gradients; build the net with force_backward: true");
  }
}

std::set<int> Gradients::ToRepeat(const std::vector<bool>& needed_before,
                                  const std::vector<bool>& ran,
                                  const std::set<int>& skipped) const {
  const std::vector<Node>& nodes = wiring_.nodes;
  std::set<int> repeated;
  std::vector<const SyncedMemory*> open;
  std::set<const SyncedMemory*> seen;
  for (int n : skipped) {
    if (!ran[n]) continue;
    for (const BlobBase* top : nodes[n].top) open.push_back(top->data_memory().get());
  }
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (needed_before[n] || !nodes_[n].needed || !ran[n] || !InPlace(nodes[n])) continue;
    if (BackwardReadsOf(nodes[n].layer->layer_param()).copies_in_place) {
      open.push_back(nodes[n].top[0]->data_memory().get());
    }
  }
  while (!open.empty()) {
    const SyncedMemory* const memory = open.back();
    open.pop_back();
    if (!seen.insert(memory).second) continue;
    for (size_t n = 0; n < nodes.size(); ++n) {
      const Node& node = nodes[n];
      if (std::none_of(node.top.begin(), node.top.end(),
                       [&](const BlobBase* top) { return top->data_memory().get() == memory; })) {
        continue;
      }
      repeated.insert(static_cast<int>(n));
      // Its other tops may have been changed in place since.
      for (const BlobBase* top : node.top) open.push_back(top->data_memory().get());
      // Its bottoms may have been overwritten since.
      for (const BlobBase* bottom : node.bottom) {
        const SyncedMemory* const source = bottom->data_memory().get();
        for (size_t m = n + 1; m < nodes.size(); ++m) {
          if (InPlace(nodes[m]) && nodes[m].top[0]->data_memory().get() == source) {
            open.push_back(source);
          }
        }
      }
    }
  }
  for (int n : repeated) {
    CAFFE_CHECK(
        !nodes[n].bottom.empty(), NetLabel(wiring_.name), ": the requested gradients need ",
        "blob '", nodes[n].top[0]->name(), "' as layer '", nodes[n].layer->name(),
        "' made it, and another layer has changed it in place; run forward once more, then ",
        "backward");
  }
  return repeated;
}

}  // namespace caffe

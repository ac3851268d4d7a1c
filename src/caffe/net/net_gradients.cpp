// Which layers run backward, for the losses and for the gradients that callers ask for.
#include <algorithm>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/net/net.hpp"

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

}  // namespace

void Net::DecideGradients() {
  const bool force = filtered_->force_backward();
  blob_gradient_.assign(blobs_.size(), false);
  // Blobs that depend on one whose gradient was asked for.
  std::vector<bool> reached(blobs_.size(), false);
  const auto asked = [&](int id) { return requested_.count(UserBlob(id)) > 0; };
  // Forward: what could have a gradient.
  int layers = 0;
  for (Node& node : nodes_) {
    const LayerParameter& parameter =
        node.public_index < 0 ? node.layer->layer_param() : filtered_->layer(layers++);
    const LayerTraits& traits = TraitsOf(parameter.type());
    CAFFE_CHECK(parameter.propagate_down_size() == 0 ||
                    parameter.propagate_down_size() == static_cast<int>(node.bottom.size()),
                parameter.name(), " (", parameter.type(), "): propagate_down has ",
                parameter.propagate_down_size(), " entries for ", node.bottom.size(), " bottoms");
    bool need = false, from_asked = false;
    node.bottom_gradient.clear();
    for (size_t b = 0; b < node.bottom.size(); ++b) {
      const int id = node.bottom_ids[b];
      bool gradient = blob_gradient_[id];
      if (parameter.propagate_down_size() > 0) {
        gradient = parameter.propagate_down(static_cast<int>(b));
      }
      if (force) gradient = true;
      if (Has(traits.no_gradient_bottoms, static_cast<int>(b)) || !traits.backward) {
        gradient = false;
      }
      node.bottom_gradient.push_back(gradient);
      need = need || gradient;
      from_asked = from_asked || (gradient && (reached[id] || asked(id)));
    }
    for (size_t p = 0; p < node.layer->blobs().size(); ++p) {
      const int index = static_cast<int>(p);
      const float rate = index < parameter.param_size() ? parameter.param(index).lr_mult() : 1.f;
      const bool gradient = rate != 0 || force;
      node.layer->set_param_propagate_down(index, gradient);
      need = need || gradient;
    }
    node.need_backward = need && traits.backward;
    for (int id : node.top_ids) {
      blob_gradient_[id] = node.need_backward || asked(id);
      reached[id] = from_asked;
    }
  }
  // Backward: what contributes to a loss, all of it under force_backward, and what depends on a blob
  // whose gradient was asked for: the caller gives the diffs of the outputs.
  std::vector<bool> useful(blobs_.size(), false);
  for (size_t i = nodes_.size(); i-- > 0;) {
    Node& node = nodes_[i];
    bool contributes = force;
    for (size_t t = 0; t < node.top.size(); ++t) {
      if (node.layer->loss_weight(static_cast<int>(t)) != 0 || useful[node.top_ids[t]] ||
          reached[node.top_ids[t]]) {
        contributes = true;
      }
    }
    if (!contributes) node.need_backward = false;
    if (!node.need_backward) {
      std::fill(node.bottom_gradient.begin(), node.bottom_gradient.end(), false);
    }
    for (size_t b = 0; b < node.bottom.size(); ++b) {
      if (node.bottom_gradient[b]) useful[node.bottom_ids[b]] = true;
    }
    node.layer->set_need_backward(node.need_backward);
  }
}

void Net::ListLosses() {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    for (size_t t = 0; t < node.top.size(); ++t) {
      const float weight = node.layer->loss_weight(static_cast<int>(t));
      if (weight != 0) losses_.push_back({node.top[t], weight, static_cast<int>(i), {}, {}});
    }
  }
}

// Why Backward cannot compute the gradient at a blob of the user that was requested; empty if it can:
// then layers in float lead from the blob to a loss or an output.
std::string Net::WhyNoGradient(int id) const {
  // From the blob: what depends on it by layers that pass a gradient, and the first that does not.
  std::vector<bool> reached(blobs_.size(), false);
  std::string obstacle, codes;
  bool begun = false;
  for (const Node& node : nodes_) {
    const LayerTraits& traits = TraitsOf(node.layer->type());
    bool passes = false;
    for (size_t b = 0; b < node.bottom.size(); ++b) {
      if (!reached[node.bottom_ids[b]]) continue;
      if (node.bottom_gradient[b]) {
        passes = true;
        if (InCodes(*node.layer) && codes.empty()) codes = Named(*node.layer);
      } else if (obstacle.empty() && node.public_index >= 0) {
        if (!traits.backward) {
          obstacle = Named(*node.layer) + " has no backward pass";
        } else if (Has(traits.no_gradient_bottoms, static_cast<int>(b))) {
          obstacle = Concat(Named(*node.layer), " has no gradient for its bottom ", b, ", labels");
        } else if (node.layer->layer_param().propagate_down_size() > 0) {
          obstacle = Concat(Named(*node.layer), " has propagate_down: false for its bottom ", b);
        }
      }
    }
    for (int top : node.top_ids) {
      const bool first = !begun && UserBlob(top) == id;
      begun = begun || first;
      reached[top] = first || passes;
    }
  }
  if (!codes.empty()) {
    return codes + " computes in codes; run backward in a float type";
  }
  // From the outputs and losses: whether a path ends there.
  std::vector<bool> leads(blobs_.size(), false);
  for (int place : output_indices_) {
    for (size_t i = 0; i < blobs_.size(); ++i) {
      if (blobs_[i] == public_blobs_[place]) leads[i] = true;
    }
  }
  for (size_t n = nodes_.size(); n-- > 0;) {
    const Node& node = nodes_[n];
    bool any = node.top_ids.empty();
    for (size_t t = 0; t < node.top_ids.size(); ++t) {
      any = any || leads[node.top_ids[t]] || node.layer->loss_weight(static_cast<int>(t)) != 0;
    }
    for (size_t b = 0; b < node.bottom_ids.size(); ++b) {
      const int bottom = node.bottom_ids[b];
      if (Has(node.top_ids, bottom)) leads[bottom] = false;
      if (node.bottom_gradient[b] && any) leads[bottom] = true;
    }
  }
  // What leads holds now is true of the first version of each blob.
  for (const Node& node : nodes_) {
    for (int top : node.top_ids) {
      if (UserBlob(top) != id) continue;
      if (leads[top]) return "";
      return obstacle.empty() ? "no loss and no output depends on it" : obstacle;
    }
  }
  return "no layer makes it";
}

bool Net::TryRequest(const std::string& name, std::string* why) {
  const BlobBase* const blob = BlobByName(name).get();
  const auto found = std::find_if(blobs_.begin(), blobs_.end(),
                                  [&](const auto& other) { return other.get() == blob; });
  const int id = static_cast<int>(found - blobs_.begin());
  if (requested_.count(id)) return true;
  const auto refused = refused_.find(name);
  if (refused != refused_.end()) {
    *why = refused->second;
    return false;
  }
  requested_.insert(id);
  DecideGradients();
  *why = WhyNoGradient(id);
  if (why->empty()) return true;
  requested_.erase(id);
  DecideGradients();
  refused_[name] = *why;
  return false;
}

void Net::RequestGradients(const std::vector<std::string>& names) {
  const std::set<int> before = requested_;
  std::vector<bool> needed;
  for (const Node& node : nodes_) needed.push_back(node.need_backward);
  for (const std::string& name : names) {
    std::string why;
    if (TryRequest(name, &why)) continue;
    requested_ = before;
    DecideGradients();
    CAFFE_THROW("net ", name_, ": there is no gradient at blob '", name, "': ", why);
  }
  if (requested_ == before) return;
  CheckConflicts();
  MakePlan();
  RepeatForward(needed);
}

std::vector<std::string> Net::RequestGradientsWhereKnown(const std::vector<std::string>& names) {
  std::vector<bool> needed;
  for (const Node& node : nodes_) needed.push_back(node.need_backward);
  const size_t before = requested_.size();
  std::vector<std::string> known;
  std::string first;
  for (const std::string& name : names) {
    std::string why;
    if (TryRequest(name, &why)) {
      known.push_back(name);
    } else if (first.empty()) {
      first = Concat("net ", name_, ": there is no gradient at blob '", name, "': ", why);
    }
  }
  const bool nothing = std::none_of(nodes_.begin(), nodes_.end(),
                                    [](const Node& node) { return node.need_backward; });
  CAFFE_CHECK(!nothing || first.empty() || !known.empty(), first);
  if (requested_.size() == before) return known;
  CheckConflicts();
  MakePlan();
  RepeatForward(needed);
  return known;
}

// In phase TEST no memory is kept for gradients: rather none than wrong ones.
void Net::CheckConflicts() const {
  for (const GradientConflict& conflict : conflicts_) {
    const Node& reader = nodes_[public_nodes_[conflict.reader]];
    if (!reader.need_backward) continue;
    const LayerBase& writer = *public_layers_[conflict.writer];
    CAFFE_THROW("net ", name_, ": ", writer.name(), " (", writer.type(), "): works in place, but ",
                conflict.reason, ", and nets in phase TEST keep no ",
                "memory for gradients; build the net with force_backward: true");
  }
}

// Layers that work in place keep a copy of their bottom only if Backward is to be called. Where one did
// not, it runs again, with all layers that write the same memory.
void Net::RepeatForward(const std::vector<bool>& needed_before) {
  const auto in_place = [](const Node& node) {
    return !node.top_ids.empty() && Has(node.bottom_ids, node.top_ids[0]);
  };
  std::set<int> repeated;
  std::vector<const SyncedMemory*> open;
  std::set<const SyncedMemory*> seen;
  for (size_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = nodes_[n];
    if (needed_before[n] || !node.need_backward || !node.ran || !in_place(node)) continue;
    if (BackwardReadsOf(node.layer->layer_param()).copies_in_place) {
      open.push_back(node.top[0]->data_memory().get());
    }
  }
  while (!open.empty()) {
    const SyncedMemory* const memory = open.back();
    open.pop_back();
    if (!seen.insert(memory).second) continue;
    for (size_t n = 0; n < nodes_.size(); ++n) {
      const Node& node = nodes_[n];
      if (std::none_of(node.top.begin(), node.top.end(),
                       [&](const BlobBase* top) { return top->data_memory().get() == memory; })) {
        continue;
      }
      repeated.insert(static_cast<int>(n));
      // What it reads may have been overwritten since.
      for (const BlobBase* bottom : node.bottom) {
        const SyncedMemory* const source = bottom->data_memory().get();
        for (size_t m = n + 1; m < nodes_.size(); ++m) {
          if (in_place(nodes_[m]) && nodes_[m].top[0]->data_memory().get() == source) {
            open.push_back(source);
          }
        }
      }
    }
  }
  for (int n : repeated) {
    const Node& node = nodes_[n];
    CAFFE_CHECK(
        !node.bottom.empty(), "net ", name_, ": the gradients that were asked for need ", "blob '",
        node.top[0]->name(), "' as layer '", node.layer->name(),
        "' made it, and another layer has changed it in place; run forward once more, then ",
        "backward");
  }
  for (int n : repeated) {
    Node& node = nodes_[n];
    InLayer(*node.layer, [&] {
      node.layer->PrepareParameters();
      node.layer->RepeatForward(node.bottom, node.top);
    });
  }
  if (!repeated.empty()) SyncViews();
}

}  // namespace caffe

#include "layer_callbacks.hpp"

namespace caffe {

void LayerCallbacks::BeforeForward(const Node& node) {
  const int layer = node.user_layer();
  if (layer < 0 || &node != &wiring_.nodes[wiring_.layer_begins[layer]]) return;
  Forward(before_forward, layer, wiring_.nodes[wiring_.layer_nodes[layer]].named_bottom_ids());
}

void LayerCallbacks::AfterForward(const Node& node) {
  if (node.layer_index >= 0) Forward(after_forward, node.layer_index, node.top_ids);
}

void LayerCallbacks::BeforeBackward(const Node& node) {
  const int layer = node.user_layer();
  if (layer >= 0 && !OtherRuns(node, false)) Backward(before_backward, layer);
}

void LayerCallbacks::AfterBackward(const Node& node) {
  const int layer = node.user_layer();
  if (layer >= 0 && !OtherRuns(node, true)) Backward(after_backward, layer);
}

bool LayerCallbacks::OtherRuns(const Node& node, bool before) const {
  const int own = static_cast<int>(&node - wiring_.nodes.data()), layer = node.user_layer();
  const int begin = before ? wiring_.layer_begins[layer] : own + 1;
  const int end = before ? own : wiring_.layer_nodes[layer] + 1;
  for (int n = begin; n < end; ++n) {
    if (gradients_.needed(n)) return true;
  }
  return false;
}

void LayerCallbacks::Forward(const Callback& callback, int layer, const std::vector<int>& ids) {
  if (!callback) return;
  std::vector<BlobVersions::Shown> shown = versions_->Show(ids);
  views_.Update();
  versions_->Stamp(&shown);
  callback(layer);
  views_.TakeData();
  views_.TakeDiffs();
  versions_->TakeBack(shown);
}

void LayerCallbacks::Backward(const Callback& callback, int layer) {
  if (!callback) return;
  views_.Update();
  callback(layer);
  views_.TakeData();
  views_.TakeDiffs();
}

}  // namespace caffe

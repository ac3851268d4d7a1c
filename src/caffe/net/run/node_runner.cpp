#include "node_runner.hpp"

#include "caffe/layer/sub_net.hpp"
#include "in_layer.hpp"

namespace caffe {

NodeRunner::NodeRunner(const Wiring& wiring)
    : wiring_(wiring),
      shapes_(wiring.nodes.size()),
      epochs_(wiring.nodes.size(), 0),
      ran_(wiring.nodes.size(), false) {
  for (size_t n = 0; n < shapes_.size(); ++n) {
    shapes_[n].resize(wiring.nodes[n].bottom.size() + wiring.nodes[n].top.size());
    NoteShapes(static_cast<int>(n));
  }
}

void NodeRunner::NoteShapes(int index) {
  ++epochs_[index];
  auto shape = shapes_[index].begin();
  for (const BlobBase* blob : wiring_.nodes[index].bottom) *shape++ = blob->shape();
  for (const BlobBase* blob : wiring_.nodes[index].top) *shape++ = blob->shape();
}

bool NodeRunner::HasNotedShapes(int index) const {
  auto shape = shapes_[index].begin();
  for (const BlobBase* blob : wiring_.nodes[index].bottom) {
    if (*shape++ != blob->shape()) return false;
  }
  for (const BlobBase* blob : wiring_.nodes[index].top) {
    if (*shape++ != blob->shape()) return false;
  }
  return true;
}

void NodeRunner::CheckComposite(const Node& nested) const {
  const Node& node = wiring_.nodes[wiring_.layer_nodes[nested.nested_in]];
  BlobVec bottom;
  for (const int id : node.own_bottom_ids) bottom.push_back(wiring_.blobs[id].get());
  const auto& layer = static_cast<const CompositeLayer&>(*node.layer);
  InLayer(layer, [&] { layer.CheckShapes(bottom); });
}

void NodeRunner::Reshape(int index) {
  const Node& node = wiring_.nodes[index];
  if (node.nested_in >= 0) CheckComposite(node);
  InLayer(*node.layer, [&] { node.layer->Reshape(node.bottom, node.top); });
  if (!HasNotedShapes(index)) NoteShapes(index);
}

bool NodeRunner::ReshapeIfNeeded(int index) {
  if (HasNotedShapes(index)) return false;
  Reshape(index);
  return true;
}

void NodeRunner::Prepare(int index) {
  LayerBase& layer = *wiring_.nodes[index].layer;
  InLayer(layer, [&] { layer.PrepareParameters(); });
}

void NodeRunner::Forward(int index) {
  const Node& node = wiring_.nodes[index];
  InLayer(*node.layer, [&] { node.layer->Forward(node.bottom, node.top); });
  NoteRun(index);
}

void NodeRunner::RepeatForward(int index) {
  const Node& node = wiring_.nodes[index];
  InLayer(*node.layer, [&] { node.layer->RepeatForward(node.bottom, node.top); });
}

void NodeRunner::NoteRun(int index) {
  ran_[index] = true;
  // Some layers set their tops' shapes only in Forward.
  if (!HasNotedShapes(index)) NoteShapes(index);
}

void NodeRunner::Backward(int index, const std::vector<bool>& bottom_gradients) {
  const Node& node = wiring_.nodes[index];
  CAFFE_CHECK(HasNotedShapes(index), node.layer->name(), " (", node.layer->type(),
              "): a bottom or top was reshaped since the last forward; run forward first");
  InLayer(*node.layer, [&] { node.layer->Backward(node.top, bottom_gradients, node.bottom); });
}

}  // namespace caffe

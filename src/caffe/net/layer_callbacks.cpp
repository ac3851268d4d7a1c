#include "layer_callbacks.hpp"

namespace caffe {

void LayerCallbacks::Forward(const Callback& callback, const Node& node,
                             const std::vector<int>& ids) {
  if (!callback || node.added()) return;
  std::vector<BlobVersions::Shown> shown = versions_->Show(ids);
  views_.Update();
  versions_->Stamp(&shown);
  callback(node.layer_index);
  views_.TakeData();
  views_.TakeDiffs();
  versions_->TakeBack(shown);
}

void LayerCallbacks::Backward(const Callback& callback, const Node& node) {
  if (!callback || node.added()) return;
  views_.Update();
  callback(node.layer_index);
  views_.TakeData();
  views_.TakeDiffs();
}

}  // namespace caffe

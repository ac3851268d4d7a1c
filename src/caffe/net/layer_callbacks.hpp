#pragma once

#include <functional>

#include "blob_versions.hpp"
#include "caffe/net/pass_observer.hpp"
#include "views.hpp"

namespace caffe {

// Calls functions of the user with the index of a layer, before and after it runs. During a call
// the user's blobs hold the data that the layer reads or wrote, and the function may change them.
class LayerCallbacks final : public PassObserver {
 public:
  using Callback = std::function<void(int layer)>;
  LayerCallbacks(const Views& views, BlobVersions* versions) : views_(views), versions_(versions) {}

  Callback before_forward, after_forward, before_backward, after_backward;

  bool per_layer() const override { return before_forward || after_forward; }
  void BeforeForward(const Node& node) override { Forward(before_forward, node, node.bottom_ids); }
  void AfterForward(const Node& node) override { Forward(after_forward, node, node.top_ids); }
  void BeforeBackward(const Node& node) override { Backward(before_backward, node); }
  void AfterBackward(const Node& node) override { Backward(after_backward, node); }

 private:
  void Forward(const Callback& callback, const Node& node, const std::vector<int>& ids);
  void Backward(const Callback& callback, const Node& node);

  const Views& views_;
  BlobVersions* versions_;
};

}  // namespace caffe

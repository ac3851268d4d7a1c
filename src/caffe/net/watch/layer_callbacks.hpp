#pragma once

#include <functional>

#include "caffe/net/build/gradients.hpp"
#include "caffe/net/pass_observer.hpp"
#include "caffe/net/run/blob_versions.hpp"
#include "caffe/net/run/views.hpp"

namespace caffe {

// Calls functions of the user with the index of a layer, before and after it runs; for a composite
// layer, before the first and after the last of its nodes. During a call the user's blobs hold the
// data that the layer reads or wrote, and the function may change them.
class LayerCallbacks final : public PassObserver {
 public:
  using Callback = std::function<void(int layer)>;
  LayerCallbacks(const Wiring& wiring, const Gradients& gradients, const Views& views,
                 BlobVersions* versions)
      : wiring_(wiring), gradients_(gradients), views_(views), versions_(versions) {}

  Callback before_forward, after_forward, before_backward, after_backward;
  bool any() const { return before_forward || after_forward || before_backward || after_backward; }

  const char* name() const override { return "a callback of layers"; }
  bool per_layer() const override { return before_forward || after_forward; }
  void BeforeForward(const Node& node) override;
  void AfterForward(const Node& node) override;
  void BeforeBackward(const Node& node) override;
  void AfterBackward(const Node& node) override;

 private:
  void Forward(const Callback& callback, int layer, const std::vector<int>& ids);
  void Backward(const Callback& callback, int layer);
  // Whether another node of the layer runs backward, before this one in the net, or after it.
  bool OtherRuns(const Node& node, bool before) const;

  const Wiring& wiring_;
  const Gradients& gradients_;
  const Views& views_;
  BlobVersions* versions_;
};

}  // namespace caffe

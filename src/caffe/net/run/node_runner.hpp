#pragma once

#include <vector>

#include "caffe/net/wiring.hpp"

namespace caffe {

// Runs single nodes, and records the shapes of bottoms and tops for which each layer was last
// shaped.
class NodeRunner {
 public:
  explicit NodeRunner(const Wiring& wiring);
  // Calls the layer's Reshape if a bottom or a top has another shape than after its last run;
  // returns true if so.
  bool ReshapeIfNeeded(int node);
  void Reshape(int node);
  // Incremented when a bottom or top of the node got another shape.
  int shape_epoch(int node) const { return epochs_[node]; }
  // Whether bottoms and tops have the shapes of the layer's last Reshape and Forward.
  bool HasNotedShapes(int node) const;
  // Rebuilds stale copies of the layer's parameters.
  void Prepare(int node);
  void Forward(int node);
  // Computes the tops of the last Forward again.
  void RepeatForward(int node);
  // Records that a step has computed this node's tops.
  void NoteRun(int node);
  // Throws if a bottom or top was reshaped since the last forward.
  void Backward(int node, const std::vector<bool>& bottom_gradients);
  // Whether each node has run.
  const std::vector<bool>& ran() const { return ran_; }

 private:
  void NoteShapes(int node);
  void CheckComposite(const Node& nested) const;

  const Wiring& wiring_;
  std::vector<std::vector<Shape>> shapes_;  // of each node's bottoms, then tops
  std::vector<int> epochs_;
  std::vector<bool> ran_;
};

}  // namespace caffe

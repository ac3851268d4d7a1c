#pragma once

#include <string>
#include <vector>

namespace caffe {

// One unit of a forward: the nodes it covers, in order. The first does the work; a ReLU behind a
// convolution or an inner product is done by its epilogue.
struct Step {
  std::vector<int> nodes;
  bool fused_relu = false;
};

// What a plan is made from, for each node.
struct PlanNode {
  bool can_fuse_relu = false;  // the layer's epilogue can apply max(x, 0)
  bool plain_relu = false;     // a ReLU with slope 0
  bool in_place = false;       // its top is its bottom
  std::vector<int> bottoms, tops;
};

// How a net is run: decided once from layers and phase, before the first forward.
struct Plan {
  std::vector<Step> steps;
  // "fuse" is false where every blob's history must be seen: training, debug_info.
  static Plan Make(const std::vector<PlanNode>& nodes, bool fuse);
  // A line for each step that is not one plain layer.
  std::string Report(const std::vector<std::string>& names) const;
};

}  // namespace caffe

#pragma once

#include <vector>

#include "caffe/net/plan.hpp"

namespace caffe {

// Where blobs are used, so that a step is grown without a look at all nodes.
class BlobUses {
 public:
  explicit BlobUses(const std::vector<PlanNode>& nodes);
  // The nodes that read or write the blob, once each, in their order.
  const std::vector<int>& readers(int blob) const { return readers_[blob]; }
  const std::vector<int>& writers(int blob) const { return writers_[blob]; }
  // Whether the blob's memory has other names.
  bool shared(int blob) const { return shared_[blob]; }

 private:
  std::vector<std::vector<int>> readers_, writers_;
  std::vector<bool> shared_;
};

// The step that begins with node `first`, extended as far as the facts of the following nodes
// allow. Its arrays are in C order. `step_of`: the first node of the step of each node; -1 for
// nodes without a step.
Step GrowStep(const std::vector<PlanNode>& nodes, const BlobUses& uses, const PlanOptions& options,
              const std::vector<int>& step_of, int first);

}  // namespace caffe

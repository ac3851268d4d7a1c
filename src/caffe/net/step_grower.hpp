#pragma once

#include <vector>

#include "caffe/net/plan.hpp"

namespace caffe {

// The step that begins with node `first`, extended as far as the facts of the following nodes allow.
// `step_of`: the first node of the step of each node; -1 for nodes without a step.
Step GrowStep(const std::vector<PlanNode>& nodes, const PlanOptions& options,
              const std::vector<int>& step_of, int first);

}  // namespace caffe

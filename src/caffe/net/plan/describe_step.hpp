#pragma once

#include <functional>

#include "caffe/layer/work.hpp"
#include "caffe/net/plan.hpp"
#include "caffe/net/step_info.hpp"
#include "caffe/net/wiring.hpp"

namespace caffe {

// Describes a step of the plan, and the conversions for it; `work` is prepared. is_part(node,
// bottom): a node that joins blobs finds this bottom in its top, and need not copy it.
StepInfo DescribeStep(const Wiring& wiring, const Plan& plan, size_t index, const Work& work,
                      const std::function<bool(int node, int bottom)>& is_part);

}  // namespace caffe

#pragma once

#include <functional>

#include "caffe/layer/work.hpp"
#include "caffe/net/plan.hpp"
#include "caffe/net/step_info.hpp"
#include "caffe/net/wiring.hpp"

namespace caffe {

// Describes a step whose work is prepared. is_part(node, bottom): a node that joins blobs finds this
// bottom in its top, and need not copy it.
StepInfo DescribeStep(const Wiring& wiring, const Step& step, const Work& work,
                      const std::function<bool(int node, int bottom)>& is_part);

}  // namespace caffe

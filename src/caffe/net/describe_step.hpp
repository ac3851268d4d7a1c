#pragma once

#include "caffe/layer/work.hpp"
#include "caffe/net/plan.hpp"
#include "caffe/net/step_info.hpp"
#include "caffe/net/wiring.hpp"

namespace caffe {

// Describes a step whose work is prepared.
StepInfo DescribeStep(const Wiring& wiring, const Step& step, const Work& work);

}  // namespace caffe

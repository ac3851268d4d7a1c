#pragma once

#include <string>
#include <vector>

#include "caffe/net/step_info.hpp"

namespace caffe {

// The lines of a table of a net's steps: a header, a row for each step and one for their total.
// `milliseconds` has the time of each step. "-" stands for an unknown number.
std::vector<std::string> StepTable(const std::vector<StepInfo>& steps,
                                   const std::vector<double>& milliseconds);

// The same numbers as a JSON array; null stands for an unknown number.
std::string StepsJson(const std::vector<StepInfo>& steps, const std::vector<double>& milliseconds);

}  // namespace caffe

#pragma once

#include <string>

#include "caffe/solver/solver_action.hpp"

namespace caffe {

// "stop", "snapshot" or "none".
SolverAction ActionByName(const std::string& name);

}  // namespace caffe

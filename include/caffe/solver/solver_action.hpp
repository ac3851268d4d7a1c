#pragma once

#include <functional>

namespace caffe {

// A request to a running solver.
enum class SolverAction { kNone, kStop, kSnapshot };

using ActionFunction = std::function<SolverAction()>;

}  // namespace caffe

#pragma once

#include <functional>

namespace caffe {

// What somebody outside asks a running solver to do.
enum class SolverAction { kNone, kStop, kSnapshot };

using ActionFunction = std::function<SolverAction()>;

}  // namespace caffe

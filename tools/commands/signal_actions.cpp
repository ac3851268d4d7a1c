#include "commands/signal_actions.hpp"

#include "caffe/core/error.hpp"

namespace caffe {

SolverAction ActionByName(const std::string& name) {
  if (name == "stop") return SolverAction::kStop;
  if (name == "snapshot") return SolverAction::kSnapshot;
  CAFFE_CHECK(name == "none", "Invalid signal effect \"", name, "\": stop, snapshot or none");
  return SolverAction::kNone;
}

}  // namespace caffe

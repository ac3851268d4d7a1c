#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "caffe/core/error.hpp"
#include "caffe/solver/solver.hpp"

namespace caffe {

// Values by name.
using TrainingState = std::vector<std::pair<std::string, std::vector<double>>>;

// Everything that an iteration changes and what the next one reads; `blobs` are those of the
// training net to look at. Runs the first test net, if there is one.
inline TrainingState StateOf(Solver& solver, const std::vector<std::string>& blobs) {
  TrainingState state;
  const auto& parameters = solver.net()->learnable_params();
  for (size_t i = 0; i < parameters.size(); ++i) {
    state.emplace_back(Concat("parameter ", i), parameters[i]->DataAsDouble());
  }
  const auto& history = solver.updater().history();
  for (size_t i = 0; i < history.size(); ++i) {
    state.emplace_back(Concat("history ", i), history[i]->DataAsDouble());
  }
  const StepState& step = solver.net()->step_state();
  state.emplace_back("loss scale", std::vector<double>{step.Get(StepState::kLossScale),
                                                       step.Get(StepState::kGoodSteps)});
  for (const std::string& blob : blobs) {
    state.emplace_back(blob, solver.net()->BlobByName(blob)->DataAsDouble());
  }
  if (!solver.test_nets().empty()) state.emplace_back("test", solver.Test(0));
  return state;
}

// Where two states first differ in a bit; empty if they are equal.
inline std::string FirstDifference(const TrainingState& one, const TrainingState& two) {
  if (one.size() != two.size()) return Concat(one.size(), " and ", two.size(), " parts");
  for (size_t i = 0; i < one.size(); ++i) {
    const auto& [name, values] = one[i];
    const std::vector<double>& others = two[i].second;
    if (name != two[i].first) return Concat(name, " and ", two[i].first);
    if (values.size() != others.size()) return name + ": the counts differ";
    for (size_t j = 0; j < values.size(); ++j) {
      if (std::bit_cast<uint64_t>(values[j]) != std::bit_cast<uint64_t>(others[j])) {
        return Concat(name, ", element ", j, ": ", values[j], " and ", others[j]);
      }
    }
  }
  return "";
}

}  // namespace caffe

#include "caffe/device/graph_choice.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/device/device.hpp"

namespace caffe {

GraphChoice::GraphChoice(Device* device, std::unique_ptr<Graph> linear,
                         std::unique_ptr<Graph> branches)
    : device_(device) {
  graphs_.push_back(std::move(linear));
  if (branches) graphs_.push_back(std::move(branches));
}

bool GraphChoice::valid() {
  return std::all_of(graphs_.begin(), graphs_.end(), [](const auto& one) { return one->valid(); });
}

void GraphChoice::Launch() {
  if (trials_.size() == kTrials * graphs_.size()) Choose();
  if (graphs_.size() == 1) return graphs_[0]->Launch();
  Trial trial;
  trial.begin = device_->RecordEvent();
  graphs_[trials_.size() % graphs_.size()]->Launch();
  trial.end = device_->RecordEvent();
  trials_.push_back(std::move(trial));
}

// By the shortest launch of each.
void GraphChoice::Choose() {
  double seconds[2];
  std::fill(std::begin(seconds), std::end(seconds), std::numeric_limits<double>::infinity());
  for (size_t i = 0; i < trials_.size(); ++i) {
    double& least = seconds[i % graphs_.size()];
    least = std::min(least, trials_[i].end->SecondsSince(*trials_[i].begin));
  }
  trials_.clear();
  const bool branches = seconds[1] < seconds[0];
  graphs_.erase(branches ? graphs_.begin() : graphs_.begin() + 1);
  log::Debug(Concat(device_->info().id, ": a graph takes ", 1e6 * seconds[0], " us in order and ",
                    1e6 * seconds[1], " us with branches"));
}

std::unique_ptr<GraphChoice> RecordChoice(Device* device, const std::function<void(Capture*)>& run,
                                          const std::function<void()>& again) {
  std::unique_ptr<Graph> branches;
  if (GraphModeOfEnvironment() == GraphMode::kBranches) {
    Capture capture(device, GraphMode::kBranches);
    run(&capture);
    const bool differs = capture.has_branches();
    branches = capture.End();
    if (!differs) return std::make_unique<GraphChoice>(device, std::move(branches), nullptr);
    again();
  }
  Capture capture(device, GraphMode::kLinear);
  run(&capture);
  return std::make_unique<GraphChoice>(device, capture.End(), std::move(branches));
}

}  // namespace caffe

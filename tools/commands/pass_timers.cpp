#include "commands/pass_timers.hpp"

#include "caffe/net/net.hpp"

#include <algorithm>
#include <numeric>

namespace caffe {

PartTimer::PartTimer(Device* device, size_t parts)
    : device_(device), begin_(parts), end_(parts), times_(parts) {}

void PartTimer::Begin(size_t part) {
  if (!begin_.at(part)) begin_[part] = device_->RecordEvent();
}

void PartTimer::End(size_t part) { end_.at(part) = device_->RecordEvent(); }

void PartTimer::Collect() {
  for (size_t i = 0; i < times_.size(); ++i) {
    const bool ran = begin_[i] && end_[i];
    times_[i].push_back(ran ? 1e3 * end_[i]->SecondsSince(*begin_[i]) : 0);
    begin_[i].reset();
    end_[i].reset();
  }
}

void PartTimer::Clear() {
  for (std::vector<double>& times : times_) times.clear();
}

double PartTimer::Mean(size_t part) const {
  const std::vector<double>& times = times_[part];
  if (times.empty()) return 0;
  return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
}

double PartTimer::Median(size_t part) const {
  std::vector<double> times = times_[part];
  if (times.empty()) return 0;
  const size_t half = times.size() / 2;
  std::sort(times.begin(), times.end());
  return times.size() % 2 ? times[half] : (times[half - 1] + times[half]) / 2;
}

void LayerObserver::BeforeForward(const Node& node) {
  if (node.user_layer() >= 0) forward_->Begin(node.user_layer());
}

void LayerObserver::AfterForward(const Node& node) {
  if (node.user_layer() >= 0) forward_->End(node.user_layer());
}

void LayerObserver::BeforeBackward(const Node& node) {
  if (node.user_layer() >= 0) backward_->Begin(node.user_layer());
}

void LayerObserver::AfterBackward(const Node& node) {
  if (node.user_layer() >= 0) backward_->End(node.user_layer());
}

void StepObserver::Collect() {
  timer_->Collect();
  step_ = 0;
}

std::vector<double> TimeSteps(Net* net, size_t steps, int passes) {
  PartTimer timer(net->device(), steps);
  StepObserver observer(&timer);
  net->AddObserver(&observer);
  for (int i = 0; i < passes; ++i) {
    net->Forward();
    observer.Collect();
  }
  net->RemoveObserver(&observer);
  std::vector<double> medians;
  for (size_t i = 0; i < steps; ++i) medians.push_back(timer.Median(i));
  return medians;
}

}  // namespace caffe

#include "executor.hpp"

#include <algorithm>
#include <utility>

namespace caffe {

Executor::Executor(const Wiring& wiring, NodeRunner* runner, NetRanges* ranges, Plan plan)
    : wiring_(wiring), runner_(runner), ranges_(ranges), plan_(std::move(plan)) {}

void Executor::Prepare(const Step& step) {
  for (int node : step.nodes) runner_->ReshapeIfNeeded(node);
  const Node& node = wiring_.nodes[step.nodes[0]];
  if (node.layer->CanFuseReLU()) {
    node.layer->SetFusedReLU(step.fused_relu);
    if (node.quantized) {
      node.layer->SetRanges(ranges_->bottom_ranges(step.nodes.front()),
                            ranges_->top_ranges(step.nodes.back()));
    }
  }
  runner_->Prepare(step.nodes[0]);
}

void Executor::Run(const Step& step) {
  runner_->Forward(step.nodes[0]);
  for (size_t i = 1; i < step.nodes.size(); ++i) runner_->NoteRun(step.nodes[i]);
  ranges_->Publish(step.nodes.back());
}

void Executor::Forward(int first, int last, const Observers& observers, bool per_layer) {
  ranges_->Update();
  std::vector<int> before;
  if (first > 0) before = wiring_.AddedNodesBefore(first, last);
  for (auto node = before.rbegin(); node != before.rend(); ++node) {
    const Step step{{*node}};
    Prepare(step);
    Run(step);
  }
  const auto within = [&](const Step& step) {
    return step.nodes.front() >= first && step.nodes.back() <= last;
  };
  for (const Step& step : plan_.steps) {
    if (within(step)) Prepare(step);
  }
  for (const Step& step : plan_.steps) {
    if (!within(step)) continue;
    const Node& node = wiring_.nodes[step.nodes.front()];
    for (PassObserver* observer : observers) observer->BeforeForward(node);
    // A layer before this one may have decided about shapes by its data, an observer may have written
    // parameters.
    const bool reshaped = runner_->ReshapeIfNeeded(step.nodes.front());
    if (per_layer || reshaped) Prepare(step);
    Run(step);
    for (PassObserver* observer : observers) observer->AfterForward(node);
  }
}

void Executor::Backward(const std::vector<int>& nodes, const Gradients& gradients,
                        const Observers& observers) {
  for (int index : nodes) {
    if (!gradients.needed(index)) continue;
    const Node& node = wiring_.nodes[index];
    for (PassObserver* observer : observers) observer->BeforeBackward(node);
    runner_->Backward(index, gradients.bottoms(index));
    for (PassObserver* observer : observers) observer->AfterBackward(node);
  }
}

}  // namespace caffe

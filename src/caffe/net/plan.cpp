#include "caffe/net/plan.hpp"

namespace caffe {

Plan Plan::Make(const std::vector<PlanNode>& nodes, bool fuse) {
  Plan plan;
  for (int i = 0; i < static_cast<int>(nodes.size()); ++i) {
    Step step;
    step.nodes.push_back(i);
    const int next = i + 1;
    // In place only: then no blob that a user could read disappears.
    if (fuse && next < static_cast<int>(nodes.size()) && nodes[i].can_fuse_relu &&
        nodes[next].plain_relu && nodes[next].in_place && nodes[i].tops.size() == 1 &&
        nodes[next].bottoms == nodes[i].tops) {
      step.nodes.push_back(next);
      step.fused_relu = true;
      ++i;
    }
    plan.steps.push_back(step);
  }
  return plan;
}

std::string Plan::Report(const std::vector<std::string>& names) const {
  std::string report;
  for (const Step& step : steps) {
    if (step.nodes.size() == 1) continue;
    for (size_t i = 0; i < step.nodes.size(); ++i)
      report += (i ? " + " : "") + names[step.nodes[i]];
    report += "\n";
  }
  return report;
}

}  // namespace caffe

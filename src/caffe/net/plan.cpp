#include "caffe/net/plan.hpp"

#include <algorithm>
#include <utility>

namespace caffe {
namespace {

bool Has(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// Extends a step from its first node as far as the facts of the following nodes allow.
class StepGrower {
 public:
  // `step_of`: the first node of the step of each node; -1 for nodes without a step.
  StepGrower(const std::vector<PlanNode>& nodes, const PlanOptions& options,
             const std::vector<int>& step_of, int first)
      : nodes_(nodes),
        options_(options),
        step_of_(step_of),
        weighted_(nodes[first].facts.weighted) {
    step_.nodes = {first};
    step_.tops = nodes[first].tops;
  }

  Step Grow() {
    const PlanNode& first = nodes_[step_.nodes[0]];
    if (!options_.fuse || !weighted_ || first.bottoms.size() != 1 || first.tops.size() != 1) {
      return std::move(step_);
    }
    for (int next = Reader(); next >= 0 && Absorb(next); next = Reader()) {
    }
    return std::move(step_);
  }

 private:
  int top() const { return step_.tops[0]; }

  // The only node that reads the step's top; -1 if there is none, or several.
  int Reader() const {
    int reader = -1;
    for (int n = step_.nodes.back() + 1; n < static_cast<int>(nodes_.size()); ++n) {
      const bool reads = Has(nodes_[n].bottoms, top());
      if (reads && reader >= 0) return -1;
      if (reads) reader = n;
      if (Has(nodes_[n].tops, top())) break;  // another version of the blob
    }
    return reader;
  }

  bool Absorb(int next) {
    const PlanNode& node = nodes_[next];
    const PlanNode& first = nodes_[step_.nodes[0]];
    if (node.tops.size() != 1 || node.types != first.types) return false;
    const bool in_place = node.tops[0] == top();
    if (!in_place && (options_.kept.count(top()) || IsUsedBefore(next, node.tops[0]))) return false;
    if (!AddAffine(node) && !AddPointwise(node) && !AddSum(next)) return false;
    step_.nodes.push_back(next);
    if (!in_place) step_.swallowed.push_back(top());
    step_.tops = node.tops;
    return true;
  }

  // If the step includes `next`, it writes its top earlier: returns whether a node in between uses
  // the blob.
  bool IsUsedBefore(int next, int blob) const {
    for (int n = step_.nodes[0] + 1; n < next; ++n) {
      if (!Has(step_.nodes, n) && (Has(nodes_[n].bottoms, blob) || Has(nodes_[n].tops, blob))) {
        return true;
      }
    }
    return false;
  }

  bool AddAffine(const PlanNode& node) {
    const auto& affine = node.facts.affine;
    if (!affine || !weighted_->folds || !step_.stages.empty() || node.bottoms.size() != 1) {
      return false;
    }
    if (affine->channels != 1 &&
        (affine->channels != weighted_->channels || affine->axis != weighted_->axis)) {
      return false;
    }
    step_.maps.push_back(*affine);
    return true;
  }

  bool AddPointwise(const PlanNode& node) {
    const auto& pointwise = node.facts.pointwise;
    if (!pointwise || node.bottoms.size() != 1) return false;
    if (pointwise->kind == Activation::Kind::kNone) return true;
    using Kind = Activation::Kind;
    const Kind kind = pointwise->kind;
    const bool piecewise_linear =
        kind == Kind::kReLU || kind == Kind::kReLU6 || kind == Kind::kClip || kind == Kind::kPReLU;
    if (!weighted_->activates || !(piecewise_linear || weighted_->curves) || has_activation_) {
      return false;
    }
    if (node.facts.slopes) {
      // Slopes for each channel lie along axis 1.
      if (node.facts.slopes->count() > 1 && weighted_->axis != 1) return false;
      step_.slopes = node.facts.slopes;
    }
    step_.stages.push_back(*pointwise);
    has_activation_ = true;
    return true;
  }

  // The other operand must be complete when the step runs, and must not change until node `next`.
  bool AddSum(int next) {
    const PlanNode& node = nodes_[next];
    const auto& sum = node.facts.sum;
    if (!sum || !weighted_->sums || !step_.stages.empty() || node.bottoms.size() != 2) return false;
    const int own = node.bottoms[0] == top() ? 0 : 1;
    const int other = node.bottoms[1 - own];
    if (other == top()) return false;
    const int position = step_.nodes[0];
    for (int n = 0; n < next; ++n) {
      if (!Has(nodes_[n].tops, other)) continue;
      const int runs_at = step_of_[n] >= 0 ? step_of_[n] : n;
      if (runs_at >= position) return false;
    }
    const double scale = sum->coefficients[own];
    if (scale != 1) {
      if (!weighted_->folds) return false;
      step_.maps.push_back(Affine::Constant(scale, 0));
    }
    step_.residual = other;
    step_.stages.push_back(ResidualSum{static_cast<float>(sum->coefficients[1 - own])});
    return true;
  }

  const std::vector<PlanNode>& nodes_;
  const PlanOptions& options_;
  const std::vector<int>& step_of_;
  const std::optional<LayerFacts::Weighted>& weighted_;
  Step step_;
  bool has_activation_ = false;
};

}  // namespace

Plan Plan::Make(const std::vector<PlanNode>& nodes, const PlanOptions& options) {
  Plan plan;
  std::vector<int> step_of(nodes.size(), -1);
  for (int n = 0; n < static_cast<int>(nodes.size()); ++n) {
    if (step_of[n] >= 0) continue;
    Step step = StepGrower(nodes, options, step_of, n).Grow();
    for (int member : step.nodes) step_of[member] = n;
    plan.steps.push_back(std::move(step));
  }
  return plan;
}

std::string Plan::Report(const std::vector<PlanNode>& nodes) const {
  std::string report;
  for (const Step& step : steps) {
    if (!step.fused()) continue;
    for (size_t i = 0; i < step.nodes.size(); ++i) {
      report += (i ? " + " : "") + nodes[step.nodes[i]].name;
    }
    report += "\n";
  }
  return report;
}

int Plan::fused_steps() const {
  return static_cast<int>(
      std::count_if(steps.begin(), steps.end(), [](const Step& step) { return step.fused(); }));
}

}  // namespace caffe

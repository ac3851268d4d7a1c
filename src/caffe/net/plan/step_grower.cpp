#include "step_grower.hpp"

#include <algorithm>
#include <utility>

namespace caffe {
namespace {

bool Has(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

Step SingleStep(const std::vector<PlanNode>& nodes, int node) {
  Step step;
  step.nodes = {node};
  step.reads = nodes[node].bottoms;
  step.writes = nodes[node].tops;
  return step;
}

// The conditions under which a node joins a step, whatever computes it.
class StepGrower {
 public:
  StepGrower(const std::vector<PlanNode>& nodes, const BlobUses& uses, const PlanOptions& options,
             const std::vector<int>& step_of, int first)
      : nodes_(nodes), uses_(uses), options_(options), step_of_(step_of) {
    step_ = SingleStep(nodes, first);
  }
  virtual ~StepGrower() = default;

  Step Grow() {
    if (Begin()) {
      for (int next = Reader(); next >= 0 && Absorb(next); next = Reader()) {
      }
    }
    return std::move(step_);
  }

 protected:
  // Whether other nodes may join.
  virtual bool Begin() = 0;
  // Adds the computation of a node with one top, or leaves the step unchanged and returns false.
  virtual bool Add(int node) = 0;

  const PlanNode& first() const { return nodes_[step_.nodes[0]]; }
  int top() const { return step_.writes[0]; }
  StepRequest& request() { return step_.request; }

  // The other bottoms of a sum must be complete when the step runs, and must not change until node
  // `next`. Returns them; empty if that is not so, or if the step's top is added twice.
  std::vector<int> OtherOperands(int next) const {
    std::vector<int> others;
    bool own = false;
    for (const int id : nodes_[next].bottoms) {
      if (id == top() && !own) {
        own = true;
      } else if (id == top() || !IsComplete(id, next)) {
        return {};
      } else {
        others.push_back(id);
      }
    }
    return others;
  }

  // The index of the step's top among the bottoms.
  int OwnOperand(const PlanNode& node) const {
    return static_cast<int>(std::find(node.bottoms.begin(), node.bottoms.end(), top()) -
                            node.bottoms.begin());
  }

  const std::vector<PlanNode>& nodes_;
  const BlobUses& uses_;
  const PlanOptions& options_;
  Step step_;

 private:
  // The only node that reads the step's top; -1 if there is none, or several.
  int Reader() const {
    const int last = step_.nodes.back();
    const std::vector<int>&readers = uses_.readers(top()), &writers = uses_.writers(top());
    const auto reader = std::upper_bound(readers.begin(), readers.end(), last);
    const auto writer = std::upper_bound(writers.begin(), writers.end(), last);
    // The next writer makes another version of the blob, which later nodes read.
    const auto reads = [&](auto it) {
      return it != readers.end() && (writer == writers.end() || *it <= *writer);
    };
    return reads(reader) && !reads(std::next(reader)) ? *reader : -1;
  }

  bool Absorb(int next) {
    const PlanNode& node = nodes_[next];
    if (node.tops.size() != 1 || node.types != first().types) return false;
    const bool in_place = node.tops[0] == top();
    if (!in_place && (options_.kept.count(top()) || IsUsedBefore(next, node.tops[0]))) return false;
    // The step would read an earlier content of a blob that it computes.
    if (!in_place && Has(first().bottoms, top())) return false;
    if (!Add(next)) return false;
    step_.nodes.push_back(next);
    step_.writes = node.tops;
    return true;
  }

  // If the step includes `next`, it writes its top earlier: returns whether a node in between uses
  // the blob.
  bool IsUsedBefore(int next, int blob) const {
    for (const auto* users : {&uses_.readers(blob), &uses_.writers(blob)}) {
      auto n = std::upper_bound(users->begin(), users->end(), step_.nodes[0]);
      for (; n != users->end() && *n < next; ++n) {
        if (!Has(step_.nodes, *n)) return true;
      }
    }
    return false;
  }

  bool IsComplete(int blob, int next) const {
    const int position = step_.nodes[0];
    for (const int n : uses_.writers(blob)) {
      if (n >= next) break;
      const int runs_at = step_of_[n] >= 0 ? step_of_[n] : n;
      if (runs_at >= position) return false;
    }
    return true;
  }

  const std::vector<int>& step_of_;
};

// From a layer with an epilogue: maps are folded into its weights, sums and activations join the
// epilogue.
class EpilogueGrower final : public StepGrower {
 public:
  using StepGrower::StepGrower;

 private:
  bool Begin() override { return first().tops.size() == 1; }

  bool Add(int next) override {
    return AddAffine(nodes_[next]) || AddActivation(nodes_[next]) || AddSum(next);
  }

  const LayerFacts::Stages& stages() const { return *first().facts.stages(); }

  bool AddAffine(const PlanNode& node) {
    const auto& affine = node.facts.affine;
    if (!affine || !stages().folds || !request().stages.empty() || node.bottoms.size() != 1) {
      return false;
    }
    if (affine->channels != 1 &&
        (affine->channels != stages().channels || affine->axis != stages().axis)) {
      return false;
    }
    request().maps.push_back(*affine);
    return true;
  }

  bool AddActivation(const PlanNode& node) {
    const auto& function = node.facts.function;
    if (!function || node.bottoms.size() != 1) return false;
    if (function->kind == ElementFunction::Kind::kNone) return true;
    if (!function->activation() || !stages().activates || has_activation_) return false;
    if (!function->linear() && !stages().curves) return false;
    // Behind a sum of codes, see Epilogue::Check.
    if (InCodes() && has_sum_ && function != kPlainReLU) return false;
    if (node.facts.slopes) {
      // Slopes for each channel lie along axis 1.
      if (node.facts.slopes->count() > 1 && stages().axis != 1) return false;
      request().slopes = node.facts.slopes;
    }
    request().stages.push_back(*function);
    has_activation_ = true;
    return true;
  }

  bool AddSum(int next) {
    const PlanNode& node = nodes_[next];
    const auto& sum = node.facts.sum;
    if (!sum || !stages().sums || !request().stages.empty() || node.bottoms.size() != 2)
      return false;
    const std::vector<int> others = OtherOperands(next);
    if (others.empty()) return false;
    const int own = OwnOperand(node);
    const double scale = sum->coefficients[own];
    if (scale != 1) {
      // The codes of the sum's bottom would have another scale.
      if (!stages().folds || InCodes()) return false;
      request().maps.push_back(Affine::Constant(scale, 0));
    }
    step_.reads.push_back(others[0]);
    has_sum_ = true;
    request().stages.push_back(ResidualSum{static_cast<float>(sum->coefficients[1 - own])});
    return true;
  }

  bool InCodes() const { return first().types.compute.is_quantized(); }

  bool has_activation_ = false, has_sum_ = false;
};

// From an element-wise layer of a float kind: each node is a stage of a chain.
class ChainGrower final : public StepGrower {
 public:
  using StepGrower::StepGrower;

 private:
  bool Begin() override {
    const PlanNode& node = first();
    if (node.types != TypeTriple::Equal(node.types.compute) || !node.types.compute.is_float() ||
        node.bottoms.empty() || node.tops.size() != 1) {
      return false;
    }
    if (node.facts.function == ElementFunction{}) return false;
    if (!AddStages(node, 0) || !request().chain.fits()) {
      request().chain = {};
      return false;
    }
    // Nodes in between may read it under another name.
    return node.tops[0] != node.bottoms[0] || !uses_.shared(node.tops[0]);
  }

  bool Add(int next) override {
    const PlanNode& node = nodes_[next];
    if (!node.facts.sum && node.bottoms.size() != 1) return false;
    const std::vector<int> others = OtherOperands(next);
    if (others.size() + 1 != node.bottoms.size()) return false;
    Chain before = request().chain;
    if (!AddStages(node, OwnOperand(node)) || !request().chain.fits()) {
      request().chain = std::move(before);
      return false;
    }
    step_.reads.insert(step_.reads.end(), others.begin(), others.end());
    return true;
  }

  // `own`: the bottom that the chain has computed.
  bool AddStages(const PlanNode& node, int own) {
    Chain& chain = request().chain;
    const LayerFacts& facts = node.facts;
    if (facts.sum) {
      const std::vector<double>& coefficients = facts.sum->coefficients;
      if (coefficients[own] != 1) chain.Add(Affine::Constant(coefficients[own], 0));
      for (size_t i = 0; i < coefficients.size(); ++i) {
        if (static_cast<int>(i) != own) chain.AddSum(coefficients[i]);
      }
      return true;
    }
    if (node.bottoms.size() != 1) return false;
    if (facts.affine) return chain.Add(*facts.affine);
    if (!facts.function) return false;
    if (facts.slopes) return chain.AddSlopes(facts.slopes);
    if (facts.function->kind != ElementFunction::Kind::kNone) chain.Add(*facts.function);
    return true;
  }
};

// A step of training: a layer that normalises, a ChannelScale, and ReLU. Backward reads the bottom,
// which must not be overwritten.
class TrainedGrower final : public StepGrower {
 public:
  using StepGrower::StepGrower;

 private:
  bool Begin() override {
    return first().bottoms.size() == 1 && first().tops.size() == 1 &&
           first().tops != first().bottoms;
  }

  bool Add(int next) override {
    const PlanNode& node = nodes_[next];
    if (!options_.trained.count(next) || node.bottoms.size() != 1) return false;
    if (request().scale) {
      if (!request().stages.empty() || node.facts.function != kPlainReLU) return false;
      request().stages.push_back(kPlainReLU);
      return true;
    }
    const auto& scale = node.facts.channel_scale;
    if (!scale || node.tops[0] == top() || scale->axis != 1 ||
        scale->scale->count() != first().facts.normalized->channels) {
      return false;
    }
    request().scale = scale;
    return true;
  }
};

}  // namespace

BlobUses::BlobUses(const std::vector<PlanNode>& nodes) {
  const auto add = [this](int blob, int node, std::vector<std::vector<int>>* users) {
    const auto count = static_cast<size_t>(blob) + 1;
    for (auto* lists : {&readers_, &writers_}) {
      if (lists->size() < count) lists->resize(count);
    }
    std::vector<int>& of_blob = (*users)[blob];
    if (of_blob.empty() || of_blob.back() != node) of_blob.push_back(node);
  };
  for (int n = 0; n < static_cast<int>(nodes.size()); ++n) {
    for (const int id : nodes[n].bottoms) add(id, n, &readers_);
    for (const int id : nodes[n].tops) add(id, n, &writers_);
  }
  shared_.resize(readers_.size());
  for (const PlanNode& node : nodes) {
    for (const Alias& alias : node.facts.aliases) {
      shared_[node.tops[alias.top]] = true;
      if (alias.bottom >= 0) shared_[node.bottoms[alias.bottom]] = true;
    }
  }
}

Step GrowStep(const std::vector<PlanNode>& nodes, const BlobUses& uses, const PlanOptions& options,
              const std::vector<int>& step_of, int first) {
  if (nodes[first].facts.normalized && options.trained.count(first)) {
    return TrainedGrower(nodes, uses, options, step_of, first).Grow();
  }
  const bool epilogue = nodes[first].facts.stages() != nullptr;
  if (options.fuse && epilogue) return EpilogueGrower(nodes, uses, options, step_of, first).Grow();
  if (options.fuse) return ChainGrower(nodes, uses, options, step_of, first).Grow();
  return SingleStep(nodes, first);
}

}  // namespace caffe

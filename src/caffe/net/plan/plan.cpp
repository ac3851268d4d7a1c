#include "caffe/net/plan.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "step_grower.hpp"

namespace caffe {
namespace {

// Chooses the layouts of the steps, in their order. A step uses kNHWC if its layer is faster then,
// or if the layer, or the chain, can and an input is there in kNHWC. Inputs that are not there in
// the layout of their reader are converted before it, once for all later readers; outputs and kept blobs are
// converted to kNCHW. A plan for training (PlanOptions::gradients) uses kNHWC only for steps that
// also have their backward pass in it.
class LayoutChooser {
 public:
  LayoutChooser(const std::vector<PlanNode>& nodes, const PlanOptions& options, Plan* plan)
      : nodes_(nodes), options_(options), plan_(*plan) {
    size_t blobs = 0;
    for (const PlanNode& node : nodes) {
      for (const auto* ids : {&node.bottoms, &node.tops}) {
        for (const int id : *ids) blobs = std::max(blobs, static_cast<size_t>(id) + 1);
      }
    }
    for (size_t id = 0; id < blobs; ++id) root_.push_back(static_cast<int>(id));
    plan_.channels_last = root_;
    diff_layouts_.assign(blobs, Layout::kNCHW);
    for (const PlanNode& node : nodes) {
      for (const Alias& alias : node.facts.aliases) {
        if (alias.bottom < 0) continue;
        const int top = node.tops[alias.top], bottom = node.bottoms[alias.bottom];
        root_[top] = root_[bottom];
        if (node.facts.layouts.any && !trains())
          plan_.channels_last[top] = plan_.channels_last[bottom];
      }
    }
    in_c_order_.assign(blobs, true);
    channels_last_.assign(blobs, false);
    MarkRead();
  }

  void Choose() {
    for (Step& step : plan_.steps) Choose(&step);
    // What a later step needs in C order is stored then.
    std::set<int> stored;
    for (const Step& step : plan_.steps) {
      for (const Conversion& one : step.before) {
        if (one.to == Layout::kNCHW) stored.insert(root_[one.blob]);
      }
    }
    for (Step& step : plan_.steps) {
      std::erase_if(step.unstored, [&](int top) { return stored.count(root_[top]) > 0; });
    }
  }

 private:
  // Memory that a later step reads. What is not read is an output.
  void MarkRead() {
    read_.assign(root_.size(), false);
    for (const Step& step : plan_.steps) {
      std::set<int> own;  // blobs that the step has computed
      for (const int n : step.nodes) {
        for (const int id : nodes_[n].bottoms) {
          if (!own.count(id)) read_[root_[id]] = true;
        }
        own.insert(nodes_[n].tops.begin(), nodes_[n].tops.end());
      }
    }
  }

  bool Has(int blob, Layout layout) const {
    return layout == Layout::kNHWC ? channels_last_[plan_.channels_last[blob]]
                                   : in_c_order_[root_[blob]];
  }
  void Set(int blob, Layout layout, bool value) {
    if (layout == Layout::kNHWC) {
      channels_last_[plan_.channels_last[blob]] = value;
    } else {
      in_c_order_[root_[blob]] = value;
    }
  }

  bool trains() const { return !options_.gradients.empty(); }
  bool Any(const std::vector<bool>& values) const {
    return std::find(values.begin(), values.end(), true) != values.end();
  }

  // Whether the step's work can compute a forward in kNHWC that is followed by a backward.
  bool CanTrain(const Step& step) const {
    const PlanNode& first = nodes_[step.nodes[0]];
    const LayerFacts::Layouts& can = first.facts.layouts;
    if (first.facts.host || first.facts.shapes_from_data || can.bottoms >= 0) return false;
    if (step.fused() && !step.trains()) return false;
    // Alone, such a layer runs its own passes.
    if (first.facts.normalized && !step.trains()) return false;
    if (!can.any && first.bottoms.size() > 1) return false;
    const bool backward = !options_.gradients[step.nodes.back()].empty();
    if (!can.any && !(backward ? can.trains : can.nhwc)) return false;
    for (const int top : step.tops) {
      // These are read in C order, and so are their diffs.
      if (!read_[root_[top]] || options_.kept.count(top)) return false;
      for (const int bottom : first.bottoms) {
        // In place: the array that is there must be the one that was written last.
        if (bottom == top && diff_layouts_[bottom] != Layout::kNHWC) return false;
      }
    }
    return true;
  }

  LayoutPair LayoutsOf(const Step& step) const {
    const PlanNode& first = nodes_[step.nodes[0]];
    const LayerFacts::Layouts& can = first.facts.layouts;
    const bool converts = first.types.in != first.types.out;
    if ((converts && !can.any) || first.bottoms.empty()) return {};
    // A work in kNHWC has one top; a Convolution may have several, each of a bottom of its own.
    if (!can.any && first.tops.size() > 1) return {};
    if (trains() ? !CanTrain(step) : !options_.fuse) return {};
    const int bottoms = static_cast<int>(first.bottoms.size());
    const int laid_out = can.bottoms < 0 ? bottoms : can.bottoms;
    const bool there = std::any_of(first.bottoms.begin(), first.bottoms.begin() + laid_out,
                                   [this](int id) { return Has(id, Layout::kNHWC); });
    if (!step.chain.empty()) {
      const bool nhwc = there && (step.chain.channels == 1 || step.chain.axis == 1);
      return nhwc ? LayoutPair{Layout::kNHWC, Layout::kNHWC} : LayoutPair{};
    }
    const bool able = can.any || can.nhwc || (trains() && can.trains);
    if (!can.prefers_nhwc && !(there && able)) return {};
    const bool reads_nchw = can.reads_nchw && !(trains() && Any(options_.gradients[step.nodes[0]]));
    if (!there && reads_nchw) return {Layout::kNCHW, Layout::kNHWC};
    return {Layout::kNHWC, Layout::kNHWC};
  }

  void Need(int blob, Layout layout, std::vector<Conversion>* conversions) {
    if (Has(blob, layout)) return;
    conversions->push_back({blob, layout});
    Set(blob, layout, true);
  }

  void Choose(Step* step) {
    const PlanNode& first = nodes_[step->nodes[0]];
    step->layouts = LayoutsOf(*step);
    step->laid_out = first.facts.layouts.bottoms;
    // A layer alone runs its own kernel, if it has one for the layout.
    const bool own = step->layouts.y == Layout::kNCHW || first.facts.layouts.any;
    if (!step->fused() && own) step->chain = {};
    for (size_t b = 0; b < first.bottoms.size(); ++b) {
      Need(first.bottoms[b], step->bottom_layout(b), &step->before);
    }
    for (const int id : step->summands) Need(id, step->layouts.y, &step->before);
    if (trains()) ChooseDiffs(step);
    for (size_t t = 0; t < step->tops.size(); ++t) {
      const int top = step->tops[t];
      if (IsAlias(first, static_cast<int>(t))) {
        if (trains()) Set(top, Layout::kNHWC, step->layouts.y == Layout::kNHWC);
        continue;
      }
      const bool nhwc = step->layouts.y == Layout::kNHWC;
      Set(top, Layout::kNHWC, nhwc);
      Set(top, Layout::kNCHW, !nhwc);
      if (!nhwc) continue;
      if (!read_[root_[top]] || options_.kept.count(top)) {
        Need(top, Layout::kNCHW, &step->after);
      } else {
        step->unstored.push_back(top);
      }
    }
  }

  // Diffs have the layout of the data that the last step wrote.
  void ChooseDiffs(Step* step) {
    const PlanNode& first = nodes_[step->nodes[0]];
    const std::vector<bool>& gradients = options_.gradients[step->nodes[0]];
    if (step->channels_last()) {
      step->gradients = gradients;
      for (const Alias& alias : first.facts.aliases) {
        if (alias.bottom < 0) continue;
        step->shared.push_back({first.tops[alias.top], first.bottoms[alias.bottom]});
      }
    }
    for (size_t b = 0; b < gradients.size(); ++b) {
      const int bottom = first.bottoms[b];
      if (!gradients[b] || diff_layouts_[bottom] == step->bottom_layout(b)) continue;
      step->diffs.push_back({bottom, diff_layouts_[bottom]});
    }
    for (const int top : step->tops) diff_layouts_[top] = step->layouts.y;
  }

  static bool IsAlias(const PlanNode& node, int top) {
    return std::any_of(node.facts.aliases.begin(), node.facts.aliases.end(),
                       [top](const Alias& alias) { return alias.top == top; });
  }

  const std::vector<PlanNode>& nodes_;
  const PlanOptions& options_;
  Plan& plan_;
  std::vector<int> root_;  // of each blob: the blob whose memory it shares
  std::vector<bool> read_, in_c_order_, channels_last_;
  std::vector<Layout> diff_layouts_;  // of each blob, as far as steps are chosen
};

// Finds the steps that can write their top in kNHWC as a part of the top of a layer that joins blobs.
// Nothing else may read that top, because positions of a part are not neighbours.
class PartFinder {
 public:
  PartFinder(const std::vector<PlanNode>& nodes, Plan* plan) : nodes_(nodes), plan_(*plan) {
    for (size_t id = 0; id < plan_.channels_last.size(); ++id) ++names_[plan_.channels_last[id]];
    for (int s = 0; s < static_cast<int>(plan_.steps.size()); ++s) {
      const Step& step = plan_.steps[s];
      const bool alias = !nodes[step.nodes[0]].facts.aliases.empty();
      for (const int top : step.tops) {
        if (!alias) writers_[plan_.channels_last[top]].push_back(s);
      }
      for (const int id : nodes[step.nodes[0]].bottoms) ++reads_[id];
      for (const int id : step.summands) ++reads_[id];
      for (const auto* conversions : {&step.before, &step.after}) {
        for (const Conversion& one : *conversions) ++reads_[one.blob];
      }
    }
  }

  void Find() {
    for (int s = 0; s < static_cast<int>(plan_.steps.size()); ++s) {
      const Step& step = plan_.steps[s];
      const PlanNode& node = nodes_[step.nodes[0]];
      const auto& join = node.facts.join;
      if (!join || join->axis != 1 || step.layouts.y != Layout::kNHWC) continue;
      // An earlier content of the array would be lost.
      if (writers_[plan_.channels_last[step.tops[0]]][0] != s) continue;
      const int64_t bytes = static_cast<int64_t>(node.types.out.bytes());
      int64_t channels = 0, offset = 0;
      for (const int64_t extent : join->extents) channels += extent;
      for (size_t b = 0; b < node.bottoms.size(); offset += join->extents[b++]) {
        if (!node.CopiesUnchanged(b)) continue;
        const bool aligned = offset * bytes % kAlignment == 0 && channels * bytes % kAlignment == 0;
        if (!aligned || !CanBePart(node, node.bottoms[b])) continue;
        plan_.steps[writers_[node.bottoms[b]][0]].part = {step.nodes[0], static_cast<int>(b)};
      }
    }
  }

 private:
  static constexpr int64_t kAlignment = 16;  // bytes; libraries need it for arrays

  bool CanBePart(const PlanNode& join, int blob) {
    if (plan_.channels_last[blob] != blob || names_[blob] != 1 || reads_[blob] != 1) return false;
    if (writers_[blob].size() != 1) return false;
    const Step& step = plan_.steps[writers_[blob][0]];
    const PlanNode& first = nodes_[step.nodes[0]];
    return first.facts.layouts.parts && first.types == join.types && step.tops.size() == 1 &&
           step.layouts.y == Layout::kNHWC && step.summands.empty() &&
           std::find(step.unstored.begin(), step.unstored.end(), blob) != step.unstored.end();
  }

  const std::vector<PlanNode>& nodes_;
  Plan& plan_;
  // By blob: the blobs that use its array, the steps that write it, and how often it is read.
  std::map<int, int> names_, reads_;
  std::map<int, std::vector<int>> writers_;
};

// A layer whose output has another shape than expected would move the parts behind its own.
bool ShapesAreKnown(const std::vector<PlanNode>& nodes) {
  return std::none_of(nodes.begin(), nodes.end(),
                      [](const PlanNode& node) { return node.facts.shapes_from_data; });
}

}  // namespace

Plan Plan::Make(const std::vector<PlanNode>& nodes, const PlanOptions& options) {
  Plan plan;
  std::vector<int> step_of(nodes.size(), -1);
  const BlobUses uses(nodes);
  for (int n = 0; n < static_cast<int>(nodes.size()); ++n) {
    if (step_of[n] >= 0) continue;
    Step step = GrowStep(nodes, uses, options, step_of, n);
    for (int member : step.nodes) step_of[member] = n;
    plan.steps.push_back(std::move(step));
  }
  LayoutChooser(nodes, options, &plan).Choose();
  if (options.parts && ShapesAreKnown(nodes)) PartFinder(nodes, &plan).Find();
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

int Plan::conversions() const {
  size_t count = 0;
  for (const Step& step : steps) count += step.before.size() + step.after.size();
  return static_cast<int>(count);
}

}  // namespace caffe

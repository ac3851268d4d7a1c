#include "caffe/net/plan.hpp"

#include <algorithm>
#include <utility>

#include "step_grower.hpp"

namespace caffe {
namespace {

constexpr Layout kLayouts[] = {Layout::kNCHW, Layout::kNHWC};

bool Any(const std::vector<bool>& values) {
  return std::find(values.begin(), values.end(), true) != values.end();
}

bool IsAlias(const PlanNode& node, int top) {
  return std::any_of(node.facts.aliases.begin(), node.facts.aliases.end(),
                     [top](const Alias& alias) { return alias.top == top; });
}

// Chooses the layouts of steps, in their order. A step uses kNHWC if its layer is faster then, or
// if the layer, or the chain, can and an input is there in kNHWC. Inputs that are not there in the
// layout of their reader are converted before it, once for all later readers; outputs and kept
// blobs are converted to kNCHW. A plan for training (PlanOptions::gradients) uses kNHWC only for
// steps that also have their backward pass in it.
class LayoutChooser {
 public:
  // `grown`: the steps, in C order.
  LayoutChooser(const std::vector<PlanNode>& nodes, const PlanOptions& options,
                const std::vector<Step>& grown, Plan* plan)
      : nodes_(nodes), options_(options), plan_(*plan) {
    int blobs = 0;
    for (const PlanNode& node : nodes) {
      for (const auto* ids : {&node.bottoms, &node.tops}) {
        for (const int id : *ids) blobs = std::max(blobs, id + 1);
      }
    }
    plan_.arrays = Arrays(blobs);
    for (int id = 0; id < blobs; ++id) root_.push_back(id);
    for (const PlanNode& node : nodes) {
      for (const Alias& alias : node.facts.aliases) {
        if (alias.bottom < 0) continue;
        const int top = node.tops[alias.top], bottom = node.bottoms[alias.bottom];
        root_[top] = root_[bottom];
        if (node.facts.layouts.any && !trains()) plan_.arrays.MakeCopy(top, bottom);
      }
    }
    for (int id = 0; id < blobs; ++id) current_.insert(id);
    diff_layouts_.assign(blobs, Layout::kNCHW);
    read_.assign(blobs, false);
    for (const Step& step : grown) {
      for (const int id : step.reads) read_[root_[id]] = true;
    }
  }

  void Choose(Step step) {
    const PlanNode& first = nodes_[step.nodes[0]];
    const LayerFacts::Layouts can = AbilitiesOf(step);
    const LayoutPair layouts = step.request.layouts = LayoutsOf(step, can);
    // A layer alone runs its own kernel, if it has one for the layout.
    if (!step.fused() && (layouts.y == Layout::kNCHW || can.any)) step.request.chain = {};
    for (size_t i = 0; i < step.reads.size(); ++i) {
      const Layout x = i < LaidOut(first) ? layouts.x : Layout::kNCHW;
      step.reads[i] = Need(step.reads[i], i < first.bottoms.size() ? x : layouts.y, step);
    }
    if (trains()) ChooseDiffs(&step);
    const std::vector<int> tops = step.writes;
    for (int& top : step.writes) top = plan_.arrays.Data(top, layouts.y);
    if (!step.request.chain.empty()) step.over = step.reads[0];
    plan_.steps.push_back(step);
    for (size_t t = 0; t < tops.size(); ++t) {
      const bool alias = IsAlias(first, static_cast<int>(t));
      for (const Layout layout : kLayouts) {
        // All names of a memory are current in C order.
        if (!alias || layout != Layout::kNCHW) Set(tops[t], layout, layout == layouts.y);
      }
      if (!alias && !Stays(tops[t])) Need(tops[t], Layout::kNCHW, step);
    }
  }

 private:
  bool trains() const { return !options_.gradients.empty(); }
  // A later step reads the blob, and the user does not: it may be in any layout.
  bool Stays(int blob) const { return read_[root_[blob]] && !options_.kept.count(blob); }

  // The array of a blob's data, whose memory others may be, too; -1: there is none.
  int Find(int blob, Layout layout) const {
    return plan_.arrays.Find(Array::Kind::kData, layout == Layout::kNCHW ? root_[blob] : blob,
                             layout);
  }
  bool Has(int blob, Layout layout) const { return current_.count(Find(blob, layout)) > 0; }
  void Set(int blob, Layout layout, bool current) {
    const int array = Find(blob, layout);
    current_.erase(array);
    if (current) current_.insert(array);
  }

  // The blob's array, which is converted if it is not current; `step` needs it.
  int Need(int blob, Layout layout, const Step& step) {
    const int to = plan_.arrays.Data(blob, layout);
    for (const Layout from : kLayouts) {
      if (Has(blob, layout) || !Has(blob, from)) continue;
      plan_.steps.push_back(Step::Conversion(step.nodes[0], plan_.arrays.Data(blob, from), to));
      Set(blob, layout, true);
    }
    return to;
  }

  // In which layouts the step's work can compute its passes.
  LayerFacts::Layouts AbilitiesOf(const Step& step) const {
    const PlanNode& first = nodes_[step.nodes[0]];
    LayerFacts::Layouts can = first.facts.layouts;
    const bool converts = first.types.in != first.types.out;
    if ((converts && !can.any) || first.bottoms.empty()) return {};
    // A work in kNHWC has one top; a Convolution may have several, each of a bottom of its own.
    if (!can.any && first.tops.size() > 1) return {};
    if (!trains()) return options_.fuse ? can : LayerFacts::Layouts{};
    if (!CanTrain(step)) return {};
    if (!options_.gradients[step.nodes.back()].empty()) can.nhwc = can.trains;
    can.reads_nchw = can.reads_nchw && !Any(options_.gradients[step.nodes[0]]);
    return can;
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
    for (const int top : step.writes) {
      // These are read in C order, and so are their diffs.
      if (!Stays(top)) return false;
      for (const int bottom : first.bottoms) {
        // In place: the array that is there must be the one that was written last.
        if (bottom == top && diff_layouts_[bottom] != Layout::kNHWC) return false;
      }
    }
    return true;
  }

  // How many bottoms have a layout.
  static size_t LaidOut(const PlanNode& node) {
    const int bottoms = node.facts.layouts.bottoms;
    return bottoms < 0 ? node.bottoms.size() : static_cast<size_t>(bottoms);
  }

  LayoutPair LayoutsOf(const Step& step, const LayerFacts::Layouts& can) const {
    const PlanNode& first = nodes_[step.nodes[0]];
    const bool there = std::any_of(first.bottoms.begin(), first.bottoms.begin() + LaidOut(first),
                                   [this](int id) { return Has(id, Layout::kNHWC); });
    const Chain& chain = step.request.chain;
    if (!chain.empty()) {
      const bool nhwc = there && (chain.channels == 1 || chain.axis == 1);
      return nhwc ? LayoutPair{Layout::kNHWC, Layout::kNHWC} : LayoutPair{};
    }
    if (!can.any && !can.nhwc) return {};
    if (!can.prefers_nhwc && !there) return {};
    if (!there && can.reads_nchw) return {Layout::kNCHW, Layout::kNHWC};
    return {Layout::kNHWC, Layout::kNHWC};
  }

  // Diffs have the layout of the data that the last step wrote.
  void ChooseDiffs(Step* step) {
    const PlanNode& first = nodes_[step->nodes[0]];
    const std::vector<bool>& gradients = options_.gradients[step->nodes[0]];
    if (!step->in_c_order()) step->request.gradients = gradients;
    for (size_t b = 0; b < gradients.size(); ++b) {
      const int bottom = first.bottoms[b];
      const Layout from = plan_.arrays[step->reads[b]].layout, to = diff_layouts_[bottom];
      if (!gradients[b] || from == to) continue;
      plan_.diffs.push_back(Step::Conversion(step->nodes.back(), plan_.arrays.Diff(bottom, from),
                                             plan_.arrays.Diff(bottom, to)));
    }
    for (const int top : step->writes) diff_layouts_[top] = step->request.layouts.y;
  }

  const std::vector<PlanNode>& nodes_;
  const PlanOptions& options_;
  Plan& plan_;
  std::vector<int> root_;             // of each blob: the blob whose memory it shares
  std::vector<bool> read_;            // of each root: a step reads it; otherwise it is an output
  std::set<int> current_;             // the arrays that have the content of their blobs
  std::vector<Layout> diff_layouts_;  // of each blob, as far as steps are chosen
};

// Finds the steps that can write their top in kNHWC as a part of the top of a layer that joins
// blobs. Nothing else may read that top, because positions of a part are not neighbours.
class PartFinder {
 public:
  PartFinder(const std::vector<PlanNode>& nodes, Plan* plan)
      : nodes_(nodes), plan_(*plan), reads_(plan->arrays.size()), writers_(plan->arrays.size()) {
    for (Step& step : plan_.steps) {
      for (const int array : step.reads) ++reads_[array];
      const bool alias = !step.converts() && !nodes[step.nodes[0]].facts.aliases.empty();
      for (const int array : step.writes) {
        if (!alias) writers_[array].push_back(&step);
      }
    }
  }

  void Find() {
    for (const Step& step : plan_.steps) {
      const PlanNode& node = nodes_[step.nodes[0]];
      const auto& join = node.facts.join;
      if (step.converts() || !join || join->axis != 1) continue;
      if (step.request.layouts.y != Layout::kNHWC) continue;
      // An earlier content of the array would be lost.
      const std::vector<Step*>& writers = writers_[step.writes[0]];
      if (writers.empty() || writers[0] != &step) continue;
      if (node.types.out.is_packed()) continue;
      const int64_t bytes = static_cast<int64_t>(node.types.out.bytes());
      int64_t channels = 0, offset = 0;
      for (const int64_t extent : join->extents) channels += extent;
      for (size_t b = 0; b < node.bottoms.size(); offset += join->extents[b++]) {
        if (!node.CopiesUnchanged(b)) continue;
        const bool aligned = offset * bytes % kAlignment == 0 && channels * bytes % kAlignment == 0;
        if (!aligned || !CanBePart(node, step.reads[b])) continue;
        writers_[step.reads[b]][0]->part = {step.nodes[0], static_cast<int>(b), step.writes[0]};
      }
    }
  }

 private:
  static constexpr int64_t kAlignment = 16;  // bytes; libraries need it for arrays

  bool CanBePart(const PlanNode& join, int array) const {
    if (reads_[array] != 1 || writers_[array].size() != 1) return false;
    const Step& step = *writers_[array][0];
    const PlanNode& first = nodes_[step.nodes[0]];
    return first.facts.layouts.parts && first.types == join.types && !step.converts() &&
           step.writes.size() == 1 && step.request.layouts.y == Layout::kNHWC &&
           step.reads.size() == first.bottoms.size();
  }

  const std::vector<PlanNode>& nodes_;
  Plan& plan_;
  // For each array: how often it is read, and the steps that write it.
  std::vector<int> reads_;
  std::vector<std::vector<Step*>> writers_;
};

// A layer whose output has another shape than expected would move the parts behind its own.
bool ShapesAreKnown(const std::vector<PlanNode>& nodes) {
  return std::none_of(nodes.begin(), nodes.end(),
                      [](const PlanNode& node) { return node.facts.shapes_from_data; });
}

}  // namespace

Step Step::Conversion(int node, int from, int to) {
  Step step;
  step.nodes = {node};
  step.request.converts = true;
  step.reads = {from};
  step.writes = {to};
  return step;
}

Plan Plan::Make(const std::vector<PlanNode>& nodes, const PlanOptions& options) {
  std::vector<Step> grown;
  std::vector<int> step_of(nodes.size(), -1);
  const BlobUses uses(nodes);
  for (int n = 0; n < static_cast<int>(nodes.size()); ++n) {
    if (step_of[n] >= 0) continue;
    Step step = GrowStep(nodes, uses, options, step_of, n);
    for (int member : step.nodes) step_of[member] = n;
    grown.push_back(std::move(step));
  }
  Plan plan;
  LayoutChooser chooser(nodes, options, grown, &plan);
  for (Step& step : grown) chooser.Choose(std::move(step));
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
  return static_cast<int>(
      std::count_if(steps.begin(), steps.end(), [](const Step& step) { return step.converts(); }));
}

}  // namespace caffe

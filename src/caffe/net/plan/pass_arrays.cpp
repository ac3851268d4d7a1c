#include "pass_arrays.hpp"

#include <algorithm>
#include <map>

#include "caffe.pb.h"

namespace caffe {
namespace {

// Builds the arrays and steps of one kind of pass.
class Builder {
 public:
  Builder(const Wiring& wiring, const std::vector<PlanNode>& nodes, const Plan& plan)
      : wiring_(wiring),
        nodes_(nodes),
        plan_(plan),
        step_of_(nodes.size(), nullptr),
        trained_(nodes.size(), nullptr),
        own_(nodes.size()) {
    for (const Step& step : plan.steps) {
      if (step.converts()) continue;
      for (int n : step.nodes) step_of_[n] = &step;
      if (!step.trains()) continue;
      for (int n : step.nodes) trained_[n] = &step;
    }
    const int blobs = static_cast<int>(wiring.blobs.size());
    std::map<const SyncedMemory*, int> first;
    out_.arrays = plan.arrays;
    for (int id = 0; id < blobs; ++id) {
      root_.push_back(first.emplace(wiring.blobs[id]->data_memory().get(), id).first->second);
    }
  }

  PassArrays Forward(ArrayBlobs blobs, const std::set<int>& kept) {
    out_.blobs = std::move(blobs);
    Keep(kept);
    AddForward();
    FindParts();
    return std::move(out_);
  }

  PassArrays Training(ArrayBlobs blobs, const Gradients& gradients, const std::set<int>& kept) {
    out_.training = true;
    out_.blobs = std::move(blobs);
    for (int data = 0, count = out_.arrays.size(); data < count; ++data) {
      const Array array = out_.arrays[data];
      if (array.kind != Array::Kind::kData) continue;
      const int diff = out_.arrays.Diff(array.blob, array.layout);
      if (diff == static_cast<int>(out_.blobs.size())) out_.blobs.push_back(out_.blobs[data]);
    }
    Keep(kept);
    for (int id : kept) out_.kept.insert(Diff(id));
    for (const PlanNode& node : nodes_) {
      if (!node.facts.host) continue;
      for (int id : node.tops) out_.kept.insert(Diff(id));
      for (int id : node.bottoms) out_.kept.insert(Diff(id));
    }
    AddForward();
    for (int n : wiring_.BackwardNodes(wiring_.last_layer(), 0)) {
      if (gradients.needed(n) && StandsForStep(n)) out_.backward.push_back(n);
    }
    FindSegments();
    for (int n : out_.backward) AddBackward(n, gradients.bottoms(n));
    std::sort(out_.segments.begin(), out_.segments.end(),
              [](const auto& a, const auto& b) { return a.step < b.step; });
    return std::move(out_);
  }

 private:
  // Nodes of one step that trains have one backward pass: that of the last one, which stands for
  // the step. They also run again as one.
  bool StandsForStep(int n) const { return !trained_[n] || trained_[n]->nodes.back() == n; }
  // The bottoms of the node, or of the step that it stands for.
  const std::vector<int>& Bottoms(int n) const {
    return nodes_[trained_[n] ? trained_[n]->nodes[0] : n].bottoms;
  }

  int Diff(int blob, Layout layout = Layout::kNCHW) const {
    return out_.arrays.Find(Array::Kind::kDiff, blob, layout);
  }

  // Whether the node gives its top the memory of a bottom and writes nothing.
  bool IsAlias(int n) const {
    for (const Alias& alias : nodes_[n].facts.aliases) {
      if (alias.bottom >= 0) return true;
    }
    return false;
  }

  void Keep(const std::set<int>& kept) {
    out_.kept = kept;
    for (const PlanNode& node : nodes_) {
      for (const Alias& alias : node.facts.aliases) {
        if (alias.parameter >= 0) out_.kept.insert(node.tops[alias.top]);
      }
      // The tops of a layer without bottoms, or with effects outside the device, are kept.
      if (!node.bottoms.empty() && !node.facts.host) continue;
      out_.kept.insert(node.tops.begin(), node.tops.end());
      out_.kept.insert(node.bottoms.begin(), node.bottoms.end());
    }
    // Outputs: blobs that no later node reads.
    std::vector<bool> read(wiring_.blobs.size(), false);
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
      for (int id : node->tops) {
        if (!read[root_[id]]) out_.kept.insert(id);
      }
      for (int id : node->bottoms) read[root_[id]] = true;
    }
    for (int id : std::set<int>(out_.kept)) kept_roots_.insert(root_[id]);
  }

  // Adds the arrays that belong to the layer itself.
  void AddOwn(int n) {
    const Node& node = wiring_.nodes[n];
    const LayerArrays arrays = node.layer->Arrays(node.bottom, node.top);
    for (const bool scratch : {false, true}) {
      const size_t count = scratch ? arrays.scratch.size() : arrays.kept.size();
      for (size_t i = 0; i < count; ++i) {
        (scratch ? own_[n].scratch : own_[n].kept).push_back(out_.arrays.AddOwn(n, scratch, i));
      }
    }
  }

  void AddForward() {
    for (const Step& step : plan_.steps) {
      const int first = step.nodes[0];
      MemoryPlan::Step use{step.reads, step.writes};
      // A conversion may write over its array if the shape has one order in both layouts.
      if (step.over >= 0 || step.converts()) {
        use.over = step.converts() ? step.reads[0] : step.over;
        use.written = step.writes[0];
      }
      out_.writes_nothing.push_back(!step.converts() && IsAlias(first));
      if (!step.converts() && !step.fused()) {
        AddOwn(first);
        use.writes.insert(use.writes.end(), own_[first].kept.begin(), own_[first].kept.end());
      }
      out_.steps.push_back(std::move(use));
    }
    out_.forward_steps = static_cast<int>(out_.steps.size());
  }

  void FindParts() {
    for (const PlanNode& node : nodes_) {
      if (node.facts.shapes_from_data) return;  // parts could move during a forward
    }
    for (const Step& step : plan_.steps) {
      if (step.part) out_.parts.push_back({step.writes[0], step.part, -1, true});
    }
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const Step& step = plan_.steps[s];
      const int n = step.nodes[0];
      if (step.converts() || !nodes_[n].facts.join) continue;
      if (step.request.layouts.y != Layout::kNCHW) continue;
      for (size_t b = 0; b < nodes_[n].bottoms.size(); ++b) {
        if (!nodes_[n].CopiesUnchanged(b)) continue;
        const Part part{n, static_cast<int>(b), step.writes[0]};
        out_.parts.push_back({step.reads[b], part, static_cast<int>(s), false});
      }
    }
  }

  // The data that the node's backward reads.
  std::vector<int> BackwardData(int n) const {
    if (trained_[n]) return Bottoms(n);
    if (wiring_.nodes[n].composite) return {};
    const PlanNode& node = nodes_[n];
    const BackwardReads reads = BackwardReadsOf(wiring_.nodes[n].layer->layer_param());
    std::vector<int> data;
    for (int b = 0; b < static_cast<int>(node.bottoms.size()); ++b) {
      if (!reads.Bottom(b)) continue;
      const bool copied =
          b == 0 && reads.copies_in_place && !node.tops.empty() && node.tops[0] == node.bottoms[0];
      if (!copied) data.push_back(node.bottoms[b]);
    }
    for (int t = 0; t < static_cast<int>(node.tops.size()); ++t) {
      if (reads.Top(t)) data.push_back(node.tops[t]);
    }
    return data;
  }

  void AddBackward(int n, const std::vector<bool>& gradients) {
    for (RecomputedSegment& segment : out_.segments) {
      if (segment.before != n) continue;
      segment.step = static_cast<int>(out_.steps.size());
      for (int again : segment.nodes) {
        MemoryPlan::Step use{Bottoms(again), nodes_[again].tops};
        use.writes.insert(use.writes.end(), own_[again].kept.begin(), own_[again].kept.end());
        out_.steps.push_back(std::move(use));
      }
    }
    const Step& step = *step_of_[n];
    if (IsAlias(n) && step.in_c_order() &&
        (nodes_[n].tops.size() == 1 || wiring_.nodes[n].composite)) {
      for (size_t b = 0; b < gradients.size() && b < nodes_[n].tops.size(); ++b) {
        if (!gradients[b]) continue;
        out_.joined.push_back({Diff(nodes_[n].bottoms[b]), Diff(nodes_[n].tops[b])});
      }
    }
    MemoryPlan::Step use;
    for (int id : BackwardData(n)) {
      const std::vector<int>&bottoms = Bottoms(n), &tops = nodes_[n].tops;
      const auto bottom = std::find(bottoms.begin(), bottoms.end(), id);
      const auto top = std::find(tops.begin(), tops.end(), id);
      use.reads.push_back(bottom != bottoms.end() ? step.reads[bottom - bottoms.begin()]
                                                  : step.writes[top - tops.begin()]);
    }
    use.reads.insert(use.reads.end(), own_[n].kept.begin(), own_[n].kept.end());
    for (int id : nodes_[n].tops) use.reads.push_back(Diff(id, step.request.layouts.y));
    for (size_t b = 0; b < gradients.size(); ++b) {
      if (!gradients[b]) continue;
      use.writes.push_back(Diff(Bottoms(n)[b], out_.arrays[step.reads[b]].layout));
    }
    use.writes.insert(use.writes.end(), own_[n].scratch.begin(), own_[n].scratch.end());
    out_.steps.push_back(std::move(use));
    for (const Step& one : plan_.diffs) {
      if (one.nodes[0] == n) out_.steps.push_back({one.reads, one.writes});
    }
  }

  // Whether the node may run again. What it overwrites in place must have been written by nodes
  // that run again, too: NarrowToWholeArrays.
  bool MayRepeat(int n) const {
    const Node& node = wiring_.nodes[n];
    if (node.bottom_ids.empty() || nodes_[n].facts.host || nodes_[n].facts.shapes_from_data) {
      return false;
    }
    for (int top : node.top_ids) {
      if (kept_roots_.count(root_[top])) return false;
    }
    return true;
  }

  // A segment computes an array again only as a whole. Removes nodes whose top's array has a writer
  // outside their segment (a view counts with the writers of its array, so that no view runs again
  // without them), nodes that read an array which a later node outside their segment overwrites,
  // and those of steps that are not in one segment as a whole.
  static constexpr int kNone = -1;
  void NarrowToWholeArrays(std::vector<bool>* marked) const {
    for (bool changed = true; changed;) {
      changed = false;
      std::vector<int> segment(nodes_.size(), kNone);
      for (size_t n = 0; n < nodes_.size(); ++n) {
        if ((*marked)[n])
          segment[n] = n > 0 && (*marked)[n - 1] ? segment[n - 1] : static_cast<int>(n);
      }
      for (size_t n = 0; n < nodes_.size(); ++n) {
        if (!(*marked)[n] || !trained_[n]) continue;
        const std::vector<int>& all = trained_[n]->nodes;
        if (std::all_of(all.begin(), all.end(),
                        [&](int other) { return segment[other] == segment[n]; })) {
          continue;
        }
        (*marked)[n] = false;
        changed = true;
      }
      std::map<int, std::vector<int>> writers;  // of each array
      for (int n = 0; n < static_cast<int>(nodes_.size()); ++n) {
        if (IsAlias(n)) continue;
        for (int top : nodes_[n].tops) writers[root_[top]].push_back(n);
      }
      // Whether a writer of the blob's array, at or after `from`, is outside the segment of `n`.
      const auto written_outside = [&](int blob, int n, int from) {
        const std::vector<int>& all = writers[root_[blob]];
        return std::any_of(all.begin(), all.end(), [&](int writer) {
          return writer >= from && segment[writer] != segment[n];
        });
      };
      for (int n = 0; n < static_cast<int>(nodes_.size()); ++n) {
        if (!(*marked)[n]) continue;
        const auto& [bottoms, tops] = std::tie(nodes_[n].bottoms, nodes_[n].tops);
        const bool whole = std::none_of(tops.begin(), tops.end(),
                                        [&](int top) { return written_outside(top, n, 0); }) &&
                           std::none_of(bottoms.begin(), bottoms.end(),
                                        [&](int bottom) { return written_outside(bottom, n, n); });
        if (whole) continue;
        (*marked)[n] = false;
        changed = true;
      }
    }
  }

  void FindSegments() {
    std::vector<bool> marked(nodes_.size(), false);
    bool any = false;
    for (size_t n = 0; n < nodes_.size(); ++n) {
      const Node& node = wiring_.nodes[n];
      // Splits and casts belong to the layer before them.
      const bool wanted =
          node.added() ? n > 0 && marked[n - 1] : node.layer->layer_param().recompute();
      marked[n] = wanted && MayRepeat(static_cast<int>(n));
      any = any || marked[n];
    }
    if (!any) return;
    NarrowToWholeArrays(&marked);
    std::vector<std::pair<int, int>> ranges;
    for (int n = 0; n < static_cast<int>(nodes_.size()); ++n) {
      if (!marked[n] || (n > 0 && marked[n - 1])) continue;
      int end = n;
      while (end < static_cast<int>(nodes_.size()) && marked[end]) ++end;
      ranges.push_back({n, end});
    }
    std::set<int> read;                     // arrays that a backward step or another segment reads
    std::map<int, std::set<int>> reads_of;  // of each node of the backward pass
    for (int n : out_.backward) {
      std::set<int>& of_node = reads_of[n];
      for (int id : BackwardData(n)) {
        read.insert(root_[id]);
        of_node.insert(root_[id]);
      }
    }
    for (const auto& [begin, end] : ranges) {
      std::set<int> written;
      for (int n = begin; n < end; ++n) {
        for (int id : nodes_[n].bottoms) {
          if (!written.count(root_[id])) read.insert(root_[id]);
        }
        for (int id : nodes_[n].tops) written.insert(root_[id]);
      }
    }
    for (const auto& [begin, end] : ranges) AddSegment(begin, end, read, reads_of);
  }

  // From the nodes [begin, end) those that compute what backward reads.
  void AddSegment(int begin, int end, const std::set<int>& read,
                  const std::map<int, std::set<int>>& reads_of) {
    RecomputedSegment segment;
    std::set<int> wanted, written;
    for (int n = end - 1; n >= begin; --n) {
      if (!StandsForStep(n)) continue;
      bool repeat = !own_[n].kept.empty() && reads_of.count(n) > 0;
      for (int top : nodes_[n].tops) {
        repeat = repeat || read.count(root_[top]) || wanted.count(root_[top]);
      }
      if (!repeat) continue;
      segment.nodes.insert(segment.nodes.begin(), n);
      for (int id : Bottoms(n)) wanted.insert(root_[id]);
      for (int id : nodes_[n].tops) written.insert(root_[id]);
    }
    for (int n : out_.backward) {
      const bool own =
          std::find(segment.nodes.begin(), segment.nodes.end(), n) != segment.nodes.end() &&
          !own_[n].kept.empty();
      const auto reads = reads_of.find(n);
      const bool reads_written =
          reads != reads_of.end() &&
          std::any_of(reads->second.begin(), reads->second.end(),
                      [&written](int array) { return written.count(array) > 0; });
      if (own || reads_written) {
        segment.before = n;
        break;
      }
    }
    if (segment.before >= 0) out_.segments.push_back(std::move(segment));
  }

  struct Own {
    std::vector<int> kept, scratch;
  };
  const Wiring& wiring_;
  const std::vector<PlanNode>& nodes_;
  const Plan& plan_;
  std::vector<const Step*> step_of_;  // of each node
  std::vector<const Step*> trained_;  // of each node: its step, if that trains
  std::vector<int> root_;             // of each blob: the first one with its memory
  std::set<int> kept_roots_;
  std::vector<Own> own_;  // arrays of each node's layer
  PassArrays out_;
};

}  // namespace

PassArrays PassArrays::Forward(const Wiring& wiring, const std::vector<PlanNode>& nodes,
                               const Plan& plan, ArrayBlobs blobs, const std::set<int>& kept) {
  return Builder(wiring, nodes, plan).Forward(std::move(blobs), kept);
}

PassArrays PassArrays::Training(const Wiring& wiring, const std::vector<PlanNode>& nodes,
                                const Plan& plan, ArrayBlobs blobs, const Gradients& gradients,
                                const std::set<int>& kept) {
  return Builder(wiring, nodes, plan).Training(std::move(blobs), gradients, kept);
}

}  // namespace caffe

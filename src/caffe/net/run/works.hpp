#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "activation_arena.hpp"
#include "caffe/layer/work.hpp"
#include "caffe/library/layout_converter.hpp"
#include "caffe/memory/workspace.hpp"
#include "caffe/net/plan.hpp"
#include "caffe/net/plan/channels_last.hpp"
#include "caffe/net/ranges/net_ranges.hpp"
#include "node_runner.hpp"

namespace caffe {

// The works of a plan's steps. Makes them, brings them up to date, and runs single steps; it knows
// neither passes nor what happens to blobs that no step keeps.
class Works {
 public:
  // Borrowed objects must outlive this one. The arena may be null.
  Works(const Wiring& wiring, NodeRunner* runner, NetRanges* ranges, Workspace* workspace,
        const Plan& plan, ChannelsLast channels_last, const ActivationArena* arena);

  size_t size() const { return works_.size(); }
  const ChannelsLast& channels_last() const { return channels_last_; }
  const Work& work(size_t step) const { return *works_[step].work; }
  // Of a step's work, among all works of this object.
  uint64_t serial(size_t step) const { return works_[step].serial; }
  // The array of a blob in a layout, as a blob of the same shape.
  BlobBase* Array(int blob, Layout layout) const;

  // PrepareStep and PrepareWork.
  void Prepare(size_t step);
  // Shapes, arrays and the work itself.
  void PrepareStep(size_t step);
  // Derived weights.
  void PrepareWork(size_t step);
  // False if the array of which the step's top is a part has another shape now.
  bool HasCurrentPitch(size_t step) const { return works_[step].pitch == Pitch(plan_.steps[step]); }
  // Whether PrepareWork ran since the step's shapes changed.
  bool prepared(size_t step) const;
  // Whether bottoms and tops have the shapes for which the step was prepared.
  bool HasNotedShapes(size_t step) const;

  // Calls use(blob) for each array that the step reads or writes.
  template <class Use> void VisitArrays(size_t step, const Use& use) const {
    const Step& one = plan_.steps[step];
    for (const Layout layout : {Layout::kNCHW, Layout::kNHWC}) {
      ForEachArray(wiring_.nodes[one.nodes[0]].bottom_ids, one, layout,
                   [&](int blob, bool) { use(*Array(blob, layout)); });
    }
  }

  void Run(size_t step);
  // Compute the tops of a step of several nodes, or of a node, with the bits of the last forward.
  // What they read must be there, or have a source.
  void RepeatStep(size_t step);
  void RepeatNode(int node);
  // Computes the tops of a node, or of a step that ends with it, in their slices of the arena.
  void RunAgain(int node);
  // The backward pass of a node, or of a step that ends with it; then converts diffs.
  void RunBackward(int node, const std::vector<bool>& bottom_gradients);
  // The step whose backward pass runs in place of the node's; null if there is none.
  const Step* Trained(int node) const;
  // The step after whose backward pass, that of this node, diffs are converted; null if none is.
  const Step* ConvertsDiffs(int node) const;

  // The workspaces that the arena plans. Empty if it plans none, as in training.
  const StepWorkspaces& FindWorkspaces();
  // Allocates the net's workspace: nothing is allocated while steps run.
  void NeedWorkspaces();
  // What the steps need for the current shapes, and the workspaces of the forward. Allocates nothing.
  WorkMemory Count(StepWorkspaces* workspaces) const;

 private:
  struct StepWork {
    std::unique_ptr<Work> work;
    // The state for which the work was made.
    int shape_epoch = 0, range_epoch = 0;
    int64_t pitch = 0;
    uint64_t serial = 0;
    int prepared_epoch = -1;  // of shapes, when the work was last prepared
  };
  // Workspaces of a forward in phase TEST may lie in the arena.
  bool PlansWorkspaces() const { return arena_ && !arena_->arrays().training; }
  DevicePtr WorkspaceOf(size_t step);
  std::unique_ptr<Work> MakeWork(const Step& step) const;
  // LayoutPair::y_pitch of a step's work.
  int64_t Pitch(const Step& step) const;
  // Makes the step's top in kNHWC a part of the whole array, which gets memory if it has none.
  void PlacePart(const Step& step);
  // Returns whether the step is recorded.
  bool BeginStep();
  void NoteColumns(const Step& step) const;
  LayoutConverter& Converter(DataType type);
  void PrepareArrays(const Step& step);
  // `pitch`: of the arrays in kNHWC; 0: they have no gaps.
  void Convert(const std::vector<Conversion>& conversions, int64_t pitch = 0);
  void ConvertDiffs(const std::vector<Conversion>& conversions);
  // Content that is not stored is not made for tops that are written now.
  void ForgetTops(const std::vector<int>& tops, const std::vector<int>& bottoms);

  const Wiring& wiring_;
  NodeRunner* runner_;
  NetRanges* ranges_;
  Workspace* workspace_;
  const Plan& plan_;
  const ActivationArena* arena_;
  std::vector<StepWork> works_;  // one for each step
  StepWorkspaces workspaces_;    // empty if the arena holds none
  // Steps by their last node: those whose work has a backward pass, and those after whose backward
  // pass diffs are converted.
  std::map<int, size_t> trained_, converts_diffs_;
  ChannelsLast channels_last_;
  std::map<DataType, LayoutConverter> converters_;
  uint64_t works_made_ = 0;
};

}  // namespace caffe

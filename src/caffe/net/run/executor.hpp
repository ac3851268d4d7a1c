#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "activation_arena.hpp"
#include "caffe/layer/work.hpp"
#include "caffe/library/layout_converter.hpp"
#include "caffe/memory/workspace.hpp"
#include "caffe/net/build/gradients.hpp"
#include "caffe/net/pass_observer.hpp"
#include "caffe/net/plan.hpp"
#include "caffe/net/ranges/net_ranges.hpp"
#include "caffe/net/step_info.hpp"
#include "graph_segment.hpp"
#include "late_reads.hpp"
#include "loss_seeds.hpp"
#include "node_runner.hpp"
#include "pass_actions.hpp"

namespace caffe {

// A whole forward and backward of a net, and what follows. The objects must outlive the executor.
struct TrainingPass {
  const Gradients* gradients;
  LossSeeds* seeds;
  std::function<void()> before_backward;  // changes only the host, and writes the seeds
  // Enqueues the same work in each pass of the same owner; empty if nothing follows.
  std::function<void()> then;
  const void* owner = nullptr;
};

// Runs the steps of one plan, and owns their works. A net has one executor for whole passes, whose
// steps may cover several layers, and one that runs layer by layer.
class Executor {
 public:
  using Observers = std::vector<PassObserver*>;

  // Borrowed objects must outlive the executor. With an arena, the plan is only for whole passes;
  // with one for training, for whole forwards each followed by a whole backward.
  Executor(const Wiring& wiring, NodeRunner* runner, NetRanges* ranges, Workspace* workspace,
           Plan plan, ChannelsLast channels_last = {},
           std::unique_ptr<ActivationArena> arena = nullptr);
  ~Executor();
  const Plan& plan() const { return plan_; }
  const ChannelsLast& channels_last() const { return channels_last_; }

  // Runs the steps whose nodes lie in [first, last], preceded by the added nodes from which these
  // read. Shapes, works and derived weights are updated before the first step runs. `per_layer`:
  // observers may change parameters between the layers.
  void Forward(int first, int last, const Observers& observers, bool per_layer);
  // Describes all steps. Updates shapes, works and derived weights as Forward does.
  std::vector<StepInfo> Describe();
  // Runs those of the nodes backward that need it, in the given order.
  void Backward(const std::vector<int>& nodes, const Gradients& gradients,
                const Observers& observers);
  // The backward pass that follows a forward in the arena: arrays that no later layer needs are
  // freed, and layers with `recompute` run again.
  void BackwardInArena(const Gradients& gradients, const Observers& observers);
  // Forward and Backward (with an arena: BackwardInArena) of all nodes, and `pass.then`. Works that
  // can be replayed are recorded as graphs.
  void ForwardBackward(const TrainingPass& pass, const Observers& observers);
  // Whether the device can record works, and the user has not switched that off. Constant after the
  // first call.
  bool Replays();
  // Call this before a pass of training outside the arena: diffs that were freed are written there
  // as if they were new. Frees the arena.
  void LeaveArena();
  // What the steps need for the current shapes, and the workspaces of the forward. Allocates nothing.
  WorkMemory CountWorks(StepWorkspaces* workspaces) const;
  // Null if every blob has memory of its own.
  const ActivationArena* arena() const { return arena_.get(); }
  // Marks the blobs that `other` would have to compute as this one's to compute.
  void TakeForgotten(Executor* other);
  // Computes the blobs that the last forward did not keep; call it before the executor is destroyed
  // or layers move.
  void MakeForgotten();
  // Leaves their content undefined instead.
  void DropForgotten();
  // Before nodes [first, last] run layer by layer, after `written` (blobs) was written: computes the
  // blobs that the last forward did not keep, as it would have, as far as this pass changes what
  // they are computed from. NotePart follows the pass.
  void MakeDependents(int first, int last, const std::vector<int>& written);
  void NotePart() { NoteReads(true); }
  // What the last forward read.
  LateReads& late_reads() { return *late_reads_; }
  // Nodes whose arrays for the backward pass (LayerArrays::kept) the last forward did not keep.
  const std::set<int>& lost_arrays() const { return lost_arrays_; }

 private:
  class RecomputedBlob;
  class Making;
  class FreedDiff;
  struct StepWork {
    std::unique_ptr<Work> work;
    // The state for which the work was made.
    int shape_epoch = 0, range_epoch = 0;
    int64_t pitch = 0;
    uint64_t serial = 0;      // of the work, among all works of the executor
    int prepared_epoch = -1;  // of shapes, when the work was last prepared
  };
  // Those of the works, in workspaces_.
  const StepWorkspaces& FindWorkspaces();
  // Gives the arrays of the forward their places in the arena.
  void PlaceForward();
  DevicePtr WorkspaceOf(size_t step);
  // Workspaces of a forward in phase TEST may lie in the arena.
  bool PlansWorkspaces() const { return arena_ && !trains(); }
  bool trains() const { return arena_ && arena_->arrays().training; }
  void ForgetLost();
  // Ends the lifetime of the content of an array of the arena.
  void Lose(int array);
  // After a forward, and (`again`) after blobs of the same forward were computed or overwritten.
  void NoteReads(bool again);
  void FindReads();
  void NoteParameters();
  bool ParametersChanged() const;
  void KeepBlobsThatAreRead();
  void ForgetTops(const std::vector<int>& tops, const std::vector<int>& bottoms);
  void Repeat(int node);
  void RepeatStep(int step);
  // PrepareStep and PrepareWork.
  void Prepare(size_t step);
  // Shapes, arrays and the work itself.
  void PrepareStep(size_t step);
  // Derived weights.
  void PrepareWork(size_t step);
  // Prepare for all steps within [first, last].
  void PrepareAll(int first, int last);
  void Run(size_t step);
  // What Run does besides enqueuing work.
  void NoteRun(size_t step);
  // Finds the steps that can be recorded.
  void MakeSegments();
  void AddToEpoch(const GraphSegment& segment, GraphEpoch* epoch) const;
  // The arrays of the layers of these steps.
  BlobVec LayerOwned(const StepRange& steps) const;
  std::vector<PassAction> MakeActions(const TrainingPass& pass);
  void AddForwardActions(std::vector<PassAction>* actions);
  void AddBackwardActions(const Gradients& gradients, std::vector<PassAction>* actions);
  void AddToEpoch(GraphEpoch* epoch) const;
  // Runs the segment's steps if they need no further preparation; returns false otherwise.
  bool RunSegment(GraphSegment* segment, const Observers& observers);
  // The steps with a node that writes the memory.
  const std::vector<size_t>& WritersOf(const SyncedMemory* memory);
  // Drops the blob's content: the next access computes it.
  void Forget(int blob);
  void RunNode(int node);
  // The backward pass of a node, or of a step that ends with it.
  void RunBackward(int node, const Gradients& gradients);
  // Computes the tops of a node, or of a step that ends with it, as in the last forward.
  void RunAgain(int node);
  // Diffs between the nodes of steps that train are not computed, and diffs in kNHWC have no content
  // in C order.
  void LoseSwallowedDiffs();
  void LoseDiff(int blob);
  std::unique_ptr<Work> MakeWork(const Step& step) const;
  // Of a step in codes with a sum.
  bool HasNotedShapes(const Step& step) const;
  // LayoutPair::y_pitch of a step's work.
  int64_t Pitch(const Step& step) const;
  // Makes the step's top in kNHWC a part of the whole array, which gets memory if it has none.
  void PlacePart(const Step& step);
  bool BeginStep();
  void NoteColumns(const Step& step) const;
  // The array of a blob in a layout, as a blob of the same shape.
  BlobBase* Array(int blob, Layout layout) const;
  LayoutConverter& Converter(DataType type);
  void PrepareArrays(const Step& step);
  // `pitch`: of the arrays in kNHWC; 0: they have no gaps.
  void Convert(const std::vector<Conversion>& conversions, int64_t pitch = 0);
  void ConvertDiffs(const std::vector<Conversion>& conversions);

  const Wiring& wiring_;
  NodeRunner* runner_;
  NetRanges* ranges_;
  Workspace* workspace_;
  Plan plan_;
  std::unique_ptr<ActivationArena> arena_;  // null: every blob has memory of its own
  std::vector<StepWork> works_;             // one for each step
  StepWorkspaces workspaces_;               // empty if the arena holds none
  // Steps by their last node: those whose work has a backward pass, and those after whose backward
  // pass diffs are converted.
  std::map<int, size_t> trained_, converts_diffs_;
  ChannelsLast channels_last_;
  std::map<DataType, LayoutConverter> converters_;
  // WritersOf, once a blob was forgotten.
  std::unordered_map<const SyncedMemory*, std::vector<size_t>> writers_;
  std::vector<std::shared_ptr<RecomputedBlob>> sources_;  // of blobs; null until one is forgotten
  std::vector<std::shared_ptr<FreedDiff>> freed_diffs_;   // of blobs; null until one is freed
  std::vector<uint64_t> parameter_versions_;              // at the last forward, if it trains
  uint64_t works_made_ = 0;
  std::vector<GraphSegment> segments_;  // in the order of their steps
  bool made_segments_ = false;
  std::optional<bool> replays_;
  const TrainingPass* pass_ = nullptr;       // during ForwardBackward
  std::unique_ptr<PassActions> actions_[2];  // [whether something follows]
  int making_ = 0;                           // nested calls of RecomputedBlob::Make
  std::unique_ptr<LateReads> late_reads_;
  // What the blobs that are not stored (`forgotten_`, `now_`) are computed from.
  std::vector<BlobBase*> reads_;
  std::vector<int> forgotten_, now_;
  std::set<int> lost_arrays_;
  uint64_t lost_plan_ = 0;  // of the arena
};

}  // namespace caffe

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
#include "caffe/net/plan/array_blobs.hpp"
#include "caffe/net/ranges/net_ranges.hpp"
#include "node_runner.hpp"

namespace caffe {

// The works of a plan's steps. Makes them, brings them up to date, and runs single steps; it knows
// neither passes nor what happens to blobs that no step keeps.
class Works {
 public:
  // Borrowed objects must outlive this one. The arena may be null.
  Works(const Wiring& wiring, NodeRunner* runner, NetRanges* ranges, Workspace* workspace,
        const Plan& plan, ArrayBlobs array_blobs, const ActivationArena* arena);
  // The plan has a new step at this index.
  void AddStep(size_t step);

  size_t size() const { return works_.size(); }
  const ArrayBlobs& array_blobs() const { return array_blobs_; }
  const Work& work(size_t step) const { return *works_[step].work; }
  // The number of a step's work among all works of this object.
  uint64_t serial(size_t step) const { return works_[step].serial; }

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
  // Whether it did, and bottoms and tops still have these shapes.
  bool IsPrepared(size_t step) const { return HasNotedShapes(step) && prepared(step); }
  // Whether bottoms and tops have the shapes for which the step was prepared.
  bool HasNotedShapes(size_t step) const;

  // Calls use(blob) for each array of the step in another layout than C order. The others are
  // blobs.
  template <class Use> void VisitLaidOut(size_t step, const Use& use) const {
    for (const auto* arrays : {&plan_.steps[step].reads, &plan_.steps[step].writes}) {
      for (const int array : *arrays) {
        if (!plan_.arrays[array].in_c_order()) use(*array_blobs_[array]);
      }
    }
  }

  void Run(size_t step);
  // Compute the tops of the step of a node, or of the node alone, with the bits of the last
  // forward. What they read must be there, or have a source.
  void RepeatStep(int node);
  void RepeatNode(int node);
  // Computes the tops of a node, or of a step that ends with it, in their slices of the arena.
  void RunAgain(int node);
  // The backward pass of a node, or of a step that ends with it; then converts diffs.
  void RunBackward(int node, const std::vector<bool>& bottom_gradients);
  // The step whose backward pass runs in place of the node's; null if there is none.
  const Step* Trained(int node) const;
  // The index of the node's step.
  int step_of(int node) const { return step_of_[node]; }

  // The workspaces that the arena plans. Empty if it plans none, as in training.
  const StepWorkspaces& FindWorkspaces();
  // Allocates the net's workspace: nothing is allocated while steps run.
  void NeedWorkspaces();
  // The memory that the steps need for the current shapes, and the workspaces of the forward.
  // Allocates nothing.
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
  std::unique_ptr<Work> MakeConversion(const Step& step);
  // Between an array in another layout and its blob; `pitch`: of the array, 0: it has no gaps.
  void ConvertFromBlob(int array);
  void ConvertToBlob(int array, int64_t pitch);
  BlobVec BlobsOf(const std::vector<int>& arrays) const;
  void FindSteps();
  // LayoutPair::y_pitch of a step's work.
  int64_t Pitch(const Step& step) const;
  // Makes the step's top in kNHWC a part of the whole array, which gets memory if it has none.
  void PlacePart(const Step& step);
  // Returns whether the step is recorded.
  bool BeginStep();
  void NoteColumns(const Step& step) const;
  LayoutConverter& Converter(DataType type);
  void PrepareArrays(const Step& step);
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
  std::vector<int> step_of_;     // of each node
  // Conversions of diffs, by the node after whose backward pass they run; made at the first one.
  struct DiffWork {
    const Step* step;
    std::unique_ptr<Work> work;
  };
  std::multimap<int, DiffWork> diffs_;
  ArrayBlobs array_blobs_;
  std::map<DataType, LayoutConverter> converters_;
  uint64_t works_made_ = 0;
};

}  // namespace caffe

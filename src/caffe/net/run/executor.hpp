#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "activation_arena.hpp"
#include "blob_versions.hpp"
#include "caffe/memory/workspace.hpp"
#include "caffe/net/build/gradients.hpp"
#include "caffe/net/pass_observer.hpp"
#include "caffe/net/plan.hpp"
#include "caffe/net/ranges/net_ranges.hpp"
#include "caffe/net/schedule/make_schedule.hpp"
#include "caffe/net/step_info.hpp"
#include "caffe/net/training_tail.hpp"
#include "loss_seeds.hpp"
#include "lost_blobs.hpp"
#include "node_runner.hpp"
#include "replay.hpp"
#include "side_stream.hpp"
#include "works.hpp"

namespace caffe {

// The objects that the executors of a net share. The objects must outlive them.
struct PassRooms {
  NodeRunner* runner;
  NetRanges* ranges;
  const Gradients* gradients;
  LossSeeds* losses;
  BlobVersions* versions;
  Workspace* workspace;
  const TrainingTail* tail;
};

// A pass that is run as a part of a list for several nets.
struct ListMember {
  ActionRunner* runner;
  std::shared_ptr<const Schedule> schedule;
  Device* device;
  bool replays;  // false: an observer or the user wants every action run normally
};
// Runs the list of which the pass is the next member.
using RunAsMember = std::function<void(const ListMember&)>;

// Runs the schedules of one plan. A net has one executor for whole passes, whose steps may cover
// several layers, and one that runs layer by layer.
class Executor final : private ActionRunner {
 public:
  using Observers = std::vector<PassObserver*>;

  // With an arena, the plan is only for whole passes; with one for training, for whole forwards
  // each followed by a whole backward.
  Executor(const Wiring& wiring, const PassRooms& rooms, Plan plan, ArrayBlobs array_blobs,
           std::unique_ptr<ActivationArena> arena = nullptr);
  ~Executor() override;
  const Plan& plan() const { return plan_; }
  const ArrayBlobs& array_blobs() const { return works_.array_blobs(); }

  // Runs the steps whose nodes lie in [first, last], preceded by the added nodes from which these
  // read. Shapes, works and derived weights are updated before the first step runs. `per_layer`:
  // observers may change parameters between the layers.
  void Forward(int first, int last, const Observers& observers, bool per_layer);
  // Writes the diffs of the losses among the nodes, and runs those of them backward that need it,
  // in this order. `whole`: they are those of a whole backward; with an arena, after a forward in
  // it.
  void Backward(const std::vector<int>& nodes, bool whole, const Observers& observers);
  // A whole forward and backward; and what follows them up to `end`. `member`: runs it as the
  // member number `replica` of a list; null: it runs alone.
  void Iterate(IterationEnd end, const Observers& observers, int replica,
               const RunAsMember* member);
  // Call this if the tail has changed.
  void DropTail();
  // Describes all steps. Updates shapes, works and derived weights as Forward does.
  std::vector<StepInfo> Describe();
  // Whether the device can record works, and the user has not switched that off. Constant after the
  // first call.
  bool Replays();
  // Call this before a pass of training outside the arena: diffs that were freed are written there
  // as if they were new. Frees the arena.
  void LeaveArena();
  // The memory that the steps need for the current shapes, and the workspaces of the forward.
  // Allocates nothing.
  WorkMemory CountWorks(StepWorkspaces* workspaces) const { return works_.Count(workspaces); }
  // Null if every blob has memory of its own.
  const ActivationArena* arena() const { return arena_.get(); }
  // The blobs that the last forward did not keep.
  LostBlobs& lost() { return lost_; }

 private:
  enum Whole { kForward, kBackward, kIteration, kReducedIteration, kWholeIteration, kWholePasses };
  struct Pass {
    explicit Pass(Schedule made)
        : shared(std::make_shared<const Schedule>(std::move(made))), replay(schedule.actions) {}
    const std::shared_ptr<const Schedule> shared;
    const Schedule& schedule = *shared;
    Replay replay;
  };
  // A pass that runs. A layer may run another pass of its own net meanwhile.
  struct Running {
    const Schedule& schedule;
    const Observers& observers;
    // An iteration, whose update changes the parameters: derived weights are renewed by the step
    // that reads them, as a part of what is recorded.
    bool renews = false;
    // Each step is prepared right before it runs: observers may change parameters.
    bool prepares_each = false;
    int replica = 0;  // of a list for several: which of its actions are those of this pass
  };
  bool trains() const { return arena_ && arena_->arrays().training; }
  // Made once: it asks each layer for its facts.
  const ScheduleMaker& Maker();
  // The schedule of a whole pass, made once.
  Pass* WholePass(Whole kind);
  // `run` is called during the pass.
  template <class Work> void WhileRunning(const Running& running, const Work& run);
  bool Replays(const Observers& observers);
  void Run(Pass* pass, const Running& running, bool replays);
  // For each reduction of the tail: the nodes that write what it sums.
  std::vector<std::set<int>> FindWriters() const;
  // Brings the steps of the schedule up to date before the first one runs.
  void Prepare(const Schedule& schedule);
  void PrepareIteration();
  // Gives the arrays of the forward their places in the arena.
  void PlaceForward();
  void KeepBlobsThatAreRead();
  // If the blob is a top of the step, and is there only in another layout, it is converted to C
  // order from now on.
  void Store(size_t step, int blob);
  void NoteStep(size_t step);
  void AddNode(int node, GraphEpoch* epoch) const;
  void AddStep(size_t step, GraphEpoch* epoch) const;
  void BeginBackward();
  void EndBackward();

  void Before(const Action& action) override;
  void After(const Action& action) override;
  void Run(const Action& action) override;
  void Note(const Action& action) override;
  void AddToEpoch(std::span<const Action> actions, GraphEpoch* epoch) override;
  void BeforeRecord() override;
  void AfterUndo() override;

  const Wiring& wiring_;
  const PassRooms rooms_;
  Plan plan_;
  std::vector<std::vector<int>> unwritten_;  // of each step: UnwrittenBlobs
  std::unique_ptr<ActivationArena> arena_;   // null: every blob has memory of its own
  Works works_;
  LostBlobs lost_;
  std::optional<ScheduleMaker> maker_;
  std::unique_ptr<Pass> passes_[kWholePasses];
  std::optional<bool> replays_;
  SideStream reductions_;
  const Running* running_ = nullptr;  // the innermost; null between passes
};

}  // namespace caffe

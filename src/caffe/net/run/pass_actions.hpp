#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "caffe/device/graph_choice.hpp"
#include "caffe/memory/access_log.hpp"
#include "caffe/net/pass_observer.hpp"
#include "graph_segment.hpp"

namespace caffe {

// A part of a pass.
struct PassAction {
  enum class Kind {
    kNormal,  // always runs
    kWork,    // enqueues the same work in each pass, which can be replayed
    kNotes,   // enqueues nothing and changes the state of memories; runs in a replay, too
  };
  Kind kind = Kind::kNormal;
  std::function<void()> run;
  // kWork: what `run` does besides enqueuing work and using memories; may be empty.
  std::function<void()> note;
  // For observers; null if no layer runs.
  const Node* node = nullptr;
  bool backward = false;
};

// The actions of a pass, in order. Consecutive actions that can be replayed are recorded as one
// graph, once they ran normally twice in the same state. An AccessLog shows which memories they
// use: a replay uploads what the host wrote, and raises the versions of what the work writes.
class PassActions {
 public:
  using Observers = std::vector<PassObserver*>;
  // What must be known about the net.
  struct State {
    // Adds everything for which work is recorded, besides the addresses of used memories.
    std::function<void(GraphEpoch*)> epoch;
    // Makes all copies of parameters stale, so that the work that renews them is recorded.
    std::function<void()> make_stale;
    // Adapts what is known of memories after AccessLog::Undo.
    std::function<void()> undone;
  };

  explicit PassActions(std::vector<PassAction> actions);
  void Run(Device* device, const Observers& observers, const State& state);

 private:
  struct Segment {
    StepRange range;  // of actions
    GraphEpoch epoch;
    std::vector<AccessLog::Use> uses;                // in the last run that was logged
    std::vector<std::vector<SyncedMemory*>> writes;  // of each action, in the graph
    std::unique_ptr<GraphChoice> graph;
    bool refused = false;
  };
  void RunNormally(const StepRange& range, const Observers& observers);
  void RunSegment(Segment* segment, Device* device, const Observers& observers, const State& state);
  bool Record(Segment* segment, Device* device, const State& state);
  void Replay(Segment* segment);

  std::vector<PassAction> actions_;
  std::vector<Segment> segments_;
};

}  // namespace caffe

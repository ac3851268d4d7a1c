#pragma once

#include <memory>
#include <span>
#include <vector>

#include "caffe/device/graph_choice.hpp"
#include "caffe/memory/access_log.hpp"
#include "caffe/net/schedule/action.hpp"
#include "graph_epoch.hpp"

namespace caffe {

// Runs single actions.
class ActionRunner {
 public:
  virtual ~ActionRunner() = default;
  // Calls the observers of the action's node.
  virtual void Before(const Action& action) = 0;
  virtual void After(const Action& action) = 0;
  // Enqueues the action's work, or changes what the host knows; calls Note.
  virtual void Run(const Action& action) = 0;
  // The part of Run that neither enqueues work nor uses memories.
  virtual void Note(const Action& action) = 0;
  // Adds the state for which these actions are recorded, besides the addresses of the memories that
  // they use.
  virtual void AddToEpoch(std::span<const Action> actions, GraphEpoch* epoch) = 0;
  // Before actions are recorded that bring copies of parameters up to date: makes them do so.
  virtual void BeforeRecord() = 0;
  // The memories have the state again that they had before the record.
  virtual void AfterUndo() = 0;
};

// Runs the actions of one schedule, in every pass. Ranges of them that can be recorded become
// graphs, once they ran normally twice in the same state. An AccessLog of the second time shows
// which memories they use: a replay uploads what the host wrote, and raises the versions of what
// the work writes.
class Replay {
 public:
  // The actions must outlive this object.
  explicit Replay(std::span<const Action> actions);
  void Run(Device* device, ActionRunner* runner);
  // Runs all of them normally.
  void RunNormally(ActionRunner* runner) const;

 private:
  struct Segment {
    std::span<const Action> actions;
    size_t begin = 0;  // of `actions`, in the schedule
    GraphEpoch epoch = {};
    std::vector<AccessLog::Use> uses = {};                // in the last run that was logged
    std::vector<std::vector<SyncedMemory*>> writes = {};  // of each action, in the graph
    std::unique_ptr<GraphChoice> graph = nullptr;
    bool refused = false;
  };
  static void RunSegment(Segment* segment, Device* device, ActionRunner* runner);
  static bool Record(Segment* segment, Device* device, ActionRunner* runner);
  static void Launch(Segment* segment, ActionRunner* runner);

  std::span<const Action> actions_;
  std::vector<Segment> segments_;
};

}  // namespace caffe

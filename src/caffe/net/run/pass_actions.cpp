#include "pass_actions.hpp"

#include <exception>
#include <optional>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"

namespace caffe {
namespace {

using Kind = PassAction::Kind;

// The longest ranges that can be replayed, begin and end with work, and contain at least two
// actions that enqueue work.
std::vector<StepRange> RangesOf(const std::vector<PassAction>& actions) {
  std::vector<StepRange> ranges;
  StepRange range;
  int work = 0;
  const auto close = [&] {
    if (work >= 2) ranges.push_back(range);
    work = 0;
  };
  for (size_t i = 0; i < actions.size(); ++i) {
    if (actions[i].kind == Kind::kNormal) close();
    if (actions[i].kind != Kind::kWork) continue;
    if (work++ == 0) range.begin = i;
    range.end = i + 1;
  }
  close();
  return ranges;
}

void Before(const PassAction& action, const PassActions::Observers& observers) {
  if (!action.node) return;
  for (PassObserver* observer : observers) {
    action.backward ? observer->BeforeBackward(*action.node)
                    : observer->BeforeForward(*action.node);
  }
}

void After(const PassAction& action, const PassActions::Observers& observers) {
  if (!action.node) return;
  for (PassObserver* observer : observers) {
    action.backward ? observer->AfterBackward(*action.node) : observer->AfterForward(*action.node);
  }
}

// Brings the device copies up to date, as the first use of each memory would. Returns false if a
// memory has another address than in the log.
bool PrepareUses(const std::vector<AccessLog::Use>& uses) {
  for (const AccessLog::Use& use : uses) {
    if (use.alive.expired()) return false;
    if (use.borrowed) continue;  // its address follows from the arena's plan
    if (!use.pointer || use.memory->borrowed()) return false;
    const DevicePtr now = use.writes ? use.memory->PrepareToWrite() : use.memory->device_data();
    if (!(now == use.pointer)) return false;
  }
  return !uses.empty();
}

}  // namespace

PassActions::PassActions(std::vector<PassAction> actions) : actions_(std::move(actions)) {
  for (const StepRange& range : RangesOf(actions_)) segments_.emplace_back().range = range;
}

void PassActions::Run(Device* device, const Observers& observers, const State& state) {
  size_t next = 0;
  for (Segment& segment : segments_) {
    RunNormally({next, segment.range.begin}, observers);
    RunSegment(&segment, device, observers, state);
    next = segment.range.end;
  }
  RunNormally({next, actions_.size()}, observers);
}

void PassActions::RunNormally(const StepRange& range, const Observers& observers) {
  for (size_t i = range.begin; i < range.end; ++i) {
    Before(actions_[i], observers);
    actions_[i].run();
    After(actions_[i], observers);
  }
}

void PassActions::RunSegment(Segment* segment, Device* device, const Observers& observers,
                             const State& state) {
  const StepRange& range = segment->range;
  if (segment->refused) return RunNormally(range, observers);
  segment->epoch.Begin();
  state.epoch(&segment->epoch);
  const int same = segment->epoch.End();
  const bool ready = same > 0 && PrepareUses(segment->uses);
  if (!ready || (segment->graph && !segment->graph->valid())) segment->graph.reset();
  if (!segment->graph && (!ready || same < 2)) {
    AccessLog log;
    RunNormally(range, observers);
    segment->uses = log.End();
    return;
  }
  for (size_t i = range.begin; i < range.end; ++i) Before(actions_[i], observers);
  if (segment->graph) {
    Replay(segment);
  } else if (!Record(segment, device, state)) {
    for (size_t i = range.begin; i < range.end; ++i) actions_[i].run();
  }
  for (size_t i = range.begin; i < range.end; ++i) After(actions_[i], observers);
}

// Returns false if the actions could not be recorded. Then nothing of them has run.
bool PassActions::Record(Segment* segment, Device* device, const State& state) {
  const StepRange& range = segment->range;
  std::optional<AccessLog> log;
  const auto begin = [&] {
    state.make_stale();
    log.emplace();
  };
  begin();
  std::vector<std::vector<SyncedMemory*>> writes;
  const auto run = [&](Capture* capture) {
    writes.clear();
    for (size_t i = range.begin; i < range.end; ++i) {
      capture->NextStep();
      actions_[i].run();
      writes.push_back(log->TakeWritten());
    }
  };
  const auto again = [&] {
    log->Undo();
    state.undone();
    begin();
  };
  try {
    segment->graph = RecordChoice(device, run, again);
    segment->graph->Launch();
    segment->writes = std::move(writes);
  } catch (const std::exception& error) {
    segment->graph.reset();
    segment->refused = true;
    log->Undo();
    state.undone();
    state.make_stale();
    log::Debug(Concat("actions ", range.begin, " to ", range.end - 1,
                      " of a pass are not replayed as a graph: ", error.what()));
    return false;
  }
  segment->uses = log->End();
  return true;
}

void PassActions::Replay(Segment* segment) {
  segment->graph->Launch();
  for (size_t i = segment->range.begin; i < segment->range.end; ++i) {
    const PassAction& action = actions_[i];
    if (action.kind == Kind::kNotes) {
      action.run();
      continue;
    }
    for (SyncedMemory* memory : segment->writes[i - segment->range.begin]) {
      memory->MarkDeviceWritten();
    }
    if (action.note) action.note();
  }
}

}  // namespace caffe

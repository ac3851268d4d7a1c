#include "replay.hpp"

#include <exception>
#include <optional>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"

namespace caffe {
namespace {

void RunEach(std::span<const Action> actions, ActionRunner* runner) {
  for (const Action& action : actions) {
    runner->Before(action);
    runner->Run(action);
    runner->After(action);
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

Replay::Replay(std::span<const Action> actions) : actions_(actions) {
  for (const ActionRange& range : RecordableRanges(actions_)) {
    segments_.push_back({actions_.subspan(range.begin, range.end - range.begin), range.begin});
  }
}

void Replay::RunNormally(ActionRunner* runner) const { RunEach(actions_, runner); }

void Replay::Run(Device* device, ActionRunner* runner) {
  size_t next = 0;
  for (Segment& segment : segments_) {
    RunEach(actions_.subspan(next, segment.begin - next), runner);
    RunSegment(&segment, device, runner);
    next = segment.begin + segment.actions.size();
  }
  RunEach(actions_.subspan(next), runner);
}

void Replay::RunSegment(Segment* segment, Device* device, ActionRunner* runner) {
  if (segment->refused) return RunEach(segment->actions, runner);
  segment->epoch.Begin();
  runner->AddToEpoch(segment->actions, &segment->epoch);
  const int same = segment->epoch.End();
  const bool ready = same > 1 && PrepareUses(segment->uses);
  if (!ready || (segment->graph && !segment->graph->valid())) segment->graph.reset();
  if (same == 0) return RunEach(segment->actions, runner);
  if (!ready) {
    AccessLog log;
    RunEach(segment->actions, runner);
    segment->uses = log.End();
    return;
  }
  for (const Action& action : segment->actions) runner->Before(action);
  if (segment->graph) {
    Launch(segment, runner);
  } else if (!Record(segment, device, runner)) {
    for (const Action& action : segment->actions) runner->Run(action);
  }
  for (const Action& action : segment->actions) runner->After(action);
}

// Returns false if the actions could not be recorded. Then nothing of them has run.
bool Replay::Record(Segment* segment, Device* device, ActionRunner* runner) {
  std::optional<AccessLog> log;
  const auto begin = [&] {
    runner->BeforeRecord();
    log.emplace();
  };
  begin();
  std::vector<std::vector<SyncedMemory*>> writes;
  const auto run = [&](Capture* capture) {
    writes.clear();
    for (const Action& action : segment->actions) {
      capture->NextStep();
      runner->Run(action);
      writes.push_back(log->TakeWritten());
    }
  };
  const auto undo = [&] {
    log->Undo();
    runner->AfterUndo();
  };
  try {
    segment->graph = RecordChoice(device, run, [&] {
      undo();
      begin();
    });
    segment->graph->Launch();
    segment->writes = std::move(writes);
  } catch (const std::exception& error) {
    segment->graph.reset();
    segment->refused = true;
    undo();
    runner->BeforeRecord();
    log::Debug(Concat("actions ", segment->begin, " to ",
                      segment->begin + segment->actions.size() - 1,
                      " of a pass are not replayed as a graph: ", error.what()));
    return false;
  }
  segment->uses = log->End();
  return true;
}

void Replay::Launch(Segment* segment, ActionRunner* runner) {
  segment->graph->Launch();
  for (size_t i = 0; i < segment->actions.size(); ++i) {
    const Action& action = segment->actions[i];
    if (action.on_host()) {
      runner->Run(action);
      continue;
    }
    for (SyncedMemory* memory : segment->writes[i]) memory->MarkDeviceWritten();
    runner->Note(action);
  }
}

}  // namespace caffe

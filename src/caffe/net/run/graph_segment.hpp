#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "caffe/device/graph_choice.hpp"
#include "caffe/memory/blob.hpp"

namespace caffe {

// Steps [begin, end) of a plan.
struct StepRange {
  size_t begin = 0, end = 0;
  bool operator==(const StepRange&) const = default;
};

// The longest ranges of at least two steps whose work can be replayed.
std::vector<StepRange> ReplayableRanges(const std::vector<bool>& replayable);

// The state for which work was recorded: addresses, versions and epochs, in a fixed order. After
// the first passes it allocates nothing.
class GraphEpoch {
 public:
  void Begin();
  void Add(uint64_t value) { now_.push_back(value); }
  // A null pointer marks the state as incomplete: it never equals another one.
  void Add(DevicePtr pointer);
  // How many times in a row, before this time, the state was the same.
  int End();

 private:
  std::vector<uint64_t> now_, before_;
  bool complete_ = true;
  int same_ = 0;
};

// Consecutive steps that an executor records as one graph. Their inputs are the arrays that they
// read before they write them; their targets are those that they write.
class GraphSegment {
 public:
  GraphSegment(StepRange steps, BlobVec inputs, BlobVec targets);
  const StepRange& steps() const { return steps_; }

  // Runs the steps: calls `run`, or records what it enqueues, or replays the graph. `add` adds the
  // steps' state to the epoch, besides their arrays. `own`, called when the steps are recorded,
  // returns arrays of the layers that `run` may write. After a replay, `note` does what `run` does
  // besides enqueuing work.
  void Run(Device* device, const std::function<void(GraphEpoch*)>& add,
           const std::function<BlobVec()>& own, const std::function<void()>& run,
           const std::function<void()>& note);

 private:
  bool Record(Device* device, const std::function<BlobVec()>& own,
              const std::function<void()>& run);

  StepRange steps_;
  BlobVec inputs_, targets_;
  GraphEpoch epoch_;
  std::unique_ptr<GraphChoice> graph_;
  std::vector<SyncedMemory*> written_;  // by the graph
  int runs_ = 0;
  bool refused_ = false;
};

}  // namespace caffe

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace caffe {

// One entry of a pass: the only thing that is run, recorded and observed.
struct Action {
  enum class Kind {
    kStep,           // a step of the plan
    kConvert,        // one that converts an array for the step beside it
    kEndForward,     // blobs that the forward does not keep are computed when they are read
    kSeed,           // writes the diffs of the losses
    kBeginBackward,  // frees what no backward pass reads, and gives diffs their slices
    kPlaceAgain,     // gives the arrays of a segment that runs again their slices
    kAgain,          // the forward of a node, or of a step that ends with it, again
    kBackward,       // the backward pass of a node, or of a step that ends with it
    kReduce,         // a reduction of the tail, on a stream of its own
    kJoin,           // what follows waits for the reductions
    kEndBackward,    // returns all slices
    kTail,           // an entry of the tail
  };
  Kind kind = Kind::kStep;
  int index = -1;        // of the step, node, segment, reduction or entry
  int node = -1;         // which observers see; -1: none
  bool replays = false;  // enqueues the same work in each pass, which can be recorded
  // Observers are called before it, and after it: a step and the conversions for it are one to
  // them.
  bool begins = true, ends = true;
  int replica = 0;  // of a list for several

  bool of_step() const { return kind == Kind::kStep || kind == Kind::kConvert; }
  // Changes only the host's knowledge of memories: runs beside a replay, too.
  bool on_host() const {
    return kind == Kind::kEndForward || kind == Kind::kBeginBackward || kind == Kind::kPlaceAgain ||
           kind == Kind::kEndBackward;
  }
  bool operator==(const Action&) const = default;
};

// The actions of a pass, in order.
struct Schedule {
  std::vector<Action> actions;
  std::vector<int> backward;  // the nodes whose losses get diffs
};

// Actions [begin, end) of a schedule.
struct ActionRange {
  size_t begin = 0, end = 0;
  bool operator==(const ActionRange&) const = default;
};

// The longest ranges that can be recorded: they begin and end with work, and have at least two
// actions that enqueue work.
std::vector<ActionRange> RecordableRanges(std::span<const Action> actions);

// The actions of several replicas in turns, one of each. Reductions of the same gradients follow
// each other: the first one begins after all that the replicas do before theirs.
std::vector<Action> TakeTurns(std::span<const Schedule* const> replicas);

// A line for each action: "step 3 conv1", "backward conv1". `names`: of the nodes.
std::string ToText(std::span<const Action> actions, const std::vector<std::string>& names);

}  // namespace caffe

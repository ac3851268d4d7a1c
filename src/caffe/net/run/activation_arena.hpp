#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/work.hpp"
#include "caffe/memory/device_buffer.hpp"
#include "caffe/net/memory_plan.hpp"
#include "caffe/net/plan/pass_arrays.hpp"

namespace caffe {

// The memory that the steps of a forward need, besides their arrays.
struct StepWorkspaces {
  std::vector<int64_t> bytes;  // of each step; empty: none is placed in the arena
  int64_t shared = 0;          // bytes that the net's workspace has in any case
  void Set(size_t step, const Work& work);
};

// One allocation for the arrays of a net's whole passes: arrays that are not needed at the same
// time share bytes. Kept arrays, those with a view, and those that are read before a step writes
// them have separate memory, and so have those whose memory others hold, too.
//
// An array that layers run again before a backward has two lifetimes, with a slice for each.
//
// The large workspaces of steps lie in the arena as well, if the net then needs fewer bytes: few
// arrays may be alive when a step needs most. The other steps use the net's workspace.
class ActivationArena {
 public:
  ActivationArena(const Wiring& wiring, PassArrays arrays);

  const PassArrays& arrays() const { return arrays_; }
  // The memory of an array.
  const std::shared_ptr<SyncedMemory>& Memory(int array) const;

  // Before a pass, when shapes are known: makes the plan if memories or sizes changed.
  void Update(const StepWorkspaces& workspaces = {});
  // Gives the arrays whose lifetimes begin in the steps [begin, end) their slices; their content is
  // lost. PlaceAgain does so for second lifetimes.
  void Place(Device* device, int begin, int end);
  void PlaceAgain(int begin, int end);
  // Frees the allocation, as soon as no array uses it.
  void Release() { buffer_.reset(); }
  // The allocation; null before the first Place and after Release.
  DevicePtr pointer() const { return buffer_ ? buffer_->pointer() : DevicePtr(); }
  // The workspace of a step of the forward; null if it has none of `bytes` bytes in the arena.
  DevicePtr WorkspaceOf(size_t step, int64_t bytes) const;
  // For which Update made the plan.
  const StepWorkspaces& workspaces() const { return workspaces_; }

  // The arrays whose bytes another one has at the end of the forward, and those that no later step
  // reads; one of each memory. All arrays of the arena.
  const std::vector<int>& lost_in_forward() const { return lost_; }
  const std::vector<int>& dead_after_forward() const { return dead_; }
  const std::vector<int>& placed() const { return placed_; }

  // The arrays that are parts of others, until the forward ends: their content is then only in the
  // whole array.
  const std::vector<int>& parts() const { return part_arrays_; }
  // Whether the node need not copy its bottom; only of plans with parts.
  bool IsPart(int node, int bottom) const { return in_place_.count({node, bottom}) > 0; }

  // Another step of the forward.
  void AddStep(int index, MemoryPlan::Step step);
  // The array has separate memory from the next pass on.
  void Exclude(int array);
  // The part in kNHWC gets an array of its own again.
  void Detach(const Part& part);

  // Bytes of the arena, and those of them that diffs and scratch of the backward pass, and a
  // workspace, occupy at the step that needs most.
  int64_t bytes() const { return plan_.bytes; }
  int64_t diff_bytes() const { return diff_bytes_; }
  int64_t workspace_bytes() const { return workspace_bytes_; }
  // The size that the net's workspace must have for the steps whose workspaces are not in the
  // arena.
  int64_t shared_workspace() const { return shared_workspace_; }
  // Incremented when arrays get other slices.
  uint64_t plans() const { return plans_; }
  // Whether the array lies in the arena.
  bool Holds(int array) const;
  // Whether a step of the passes reads or writes the array's memory.
  bool Uses(int array) const;

 private:
  struct Seen {
    const SyncedMemory* memory = nullptr;
    int64_t bytes = 0;
    long owners = 0;
    bool operator==(const Seen&) const = default;
  };
  bool Look(size_t begin, size_t end);
  void FindOwn();
  void MakePlan();
  // Adds buffers for workspaces to those of arrays, if that takes fewer bytes.
  void PlanWorkspaces(std::vector<MemoryPlan::Step> steps, std::vector<int64_t> bytes,
                      const std::set<int>& kept);
  std::vector<int> Held() const;
  void FindLost();
  void CountShares();
  void Borrow(int buffer);
  bool HaveOneOrder(int one, int other) const;
  void JoinRoots();
  void FindUses();
  void PlaceParts(const std::set<int>& kept);
  bool IsPart(int array) const;
  // A node that joins blobs, and the first element of each bottom in its top, in C order.
  struct Joined {
    int node = -1;
    std::optional<LayerFacts::Join> join;
    std::vector<int64_t> offsets;
  };
  bool CanBePart(const ArrayPart& part, const Joined& joined, const std::set<int>& kept,
                 int64_t* offset) const;

  const Wiring& wiring_;
  PassArrays arrays_;
  std::vector<BlobBase*> blobs_;  // of each array; those of layers are null until Update
  std::vector<Seen> seen_;
  std::vector<int> root_;  // of each array: the first one with its memory
  StepWorkspaces workspaces_;
  // Buffers of the plan: array i's first lifetime is buffer i, its second one i + the number of
  // arrays. They are followed by the workspaces of steps, if these are in the plan.
  MemoryPlan plan_;
  std::vector<int> first_, last_;  // steps of each buffer; -1: unused
  std::vector<int64_t> bytes_;     // of each buffer
  std::vector<int> lost_, dead_, placed_;
  // For each array that is a part: the array that holds it, and the byte at which it begins there.
  std::map<int, std::pair<int, int64_t>> part_of_;
  std::set<int> holding_;               // arrays that hold parts
  std::vector<std::vector<int>> uses_;  // of each root, while parts are placed
  std::vector<int> part_arrays_;
  std::set<std::pair<int, int>> in_place_;  // nodes and bottoms
  int64_t diff_bytes_ = 0, workspace_bytes_ = 0, shared_workspace_ = 0;
  uint64_t plans_ = 0;
  std::shared_ptr<DeviceBuffer> buffer_;
};

}  // namespace caffe

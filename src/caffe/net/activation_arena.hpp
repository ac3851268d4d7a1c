#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "caffe/memory/device_buffer.hpp"
#include "caffe/net/memory_plan.hpp"
#include "pass_arrays.hpp"

namespace caffe {

// One allocation for the arrays of a net's whole passes: arrays that are not needed at the same time
// share bytes. Kept arrays, those with a view, and those that are read before a step writes them
// have separate memory, and so have those whose memory others hold, too.
//
// An array that layers run again before a backward has two lifetimes, with a slice for each.
class ActivationArena {
 public:
  ActivationArena(const Wiring& wiring, PassArrays arrays);

  const PassArrays& arrays() const { return arrays_; }
  // The memory of an array.
  const std::shared_ptr<SyncedMemory>& Memory(int array) const;

  // Before a pass, when shapes are known: makes the plan if memories or sizes changed.
  void Update();
  // Gives the arrays whose lifetimes begin in the steps [begin, end) their slices; their content is
  // lost. PlaceAgain does so for second lifetimes.
  void Place(Device* device, int begin, int end);
  void PlaceAgain(int begin, int end);
  // Frees the allocation, as soon as no array uses it.
  void Release() { buffer_.reset(); }
  // The allocation; null before the first Place and after Release.
  DevicePtr pointer() const { return buffer_ ? buffer_->pointer() : DevicePtr(); }

  // The arrays whose bytes another one has at the end of the forward, and those that no later step
  // reads; one of each memory. All arrays of the arena.
  const std::vector<int>& lost_in_forward() const { return lost_; }
  const std::vector<int>& dead_after_forward() const { return dead_; }
  const std::vector<int>& placed() const { return placed_; }

  // The array has separate memory from the next pass on.
  void Exclude(int array);

  // Bytes of the arena, and those of them that diffs and scratch of the backward pass occupy at the
  // step that needs most.
  int64_t bytes() const { return plan_.bytes; }
  int64_t diff_bytes() const { return diff_bytes_; }
  // Incremented when arrays get other slices.
  uint64_t plans() const { return plans_; }
  // Whether the array lies in the arena.
  bool Holds(int array) const;

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
  void Borrow(int buffer);

  const Wiring& wiring_;
  PassArrays arrays_;
  std::vector<BlobBase*> own_;  // of arrays of kind kOwn
  std::vector<Seen> seen_;
  std::vector<int> root_;  // of each array: the first one with its memory
  // Buffers of the plan: array i's first lifetime is buffer i, its second one i + the number of
  // arrays.
  MemoryPlan plan_;
  std::vector<int> first_, last_;  // steps of each buffer; -1: unused
  std::vector<int> lost_, dead_, placed_;
  int64_t diff_bytes_ = 0;
  uint64_t plans_ = 0;
  std::shared_ptr<DeviceBuffer> buffer_;
};

}  // namespace caffe

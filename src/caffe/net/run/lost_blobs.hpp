#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "late_reads.hpp"
#include "works.hpp"

namespace caffe {

// The blobs that the last forward did not keep: those within steps, those that exist only in kNHWC,
// and those whose bytes another array has. Reading one runs the nodes that compute it, from what
// the forward read.
class LostBlobs {
 public:
  // Borrowed objects must outlive this one. The arena may be null.
  LostBlobs(const Wiring& wiring, NodeRunner* runner, NetRanges* ranges, const Plan& plan,
            Works* works, ActivationArena* arena);
  ~LostBlobs();

  // Drops the blob's content: the next access computes it.
  void Forget(int blob);
  // After a forward in the arena: arrays whose bytes others have, and parts.
  void ForgetLost();
  // Ends the lifetime of the content of an array of the arena.
  void Lose(int array);
  // Diffs between the nodes of steps that train are not computed, and diffs in kNHWC have no
  // content in C order.
  void LoseHiddenDiffs();
  // Diffs that were freed are written as if they were new.
  void TakeFreedDiffs();
  // After a forward, and (`again`) after blobs of the same forward were computed or overwritten.
  void NoteReads(bool again);
  // After the forward of an iteration of training, whose parameters then change.
  void NoteParameters();
  // The blobs that the caller has read after each of the last two forwards.
  std::vector<int> TakeRead();

  // Marks the blobs that `other` would have to compute as this one's to compute.
  void TakeForgotten(LostBlobs* other);
  // Computes the blobs that the last forward did not keep.
  void MakeForgotten();
  // Leaves their content undefined instead.
  void DropForgotten();
  // Computes those of them that a run of the nodes [first, last] layer by layer would change, after
  // `written` (blobs) was written.
  void MakeDependents(int first, int last, const std::vector<int>& written);
  // The plan has other steps now.
  void FollowSteps() { writers_.clear(); }
  // The blobs that the last forward read.
  LateReads& late_reads() { return *late_reads_; }
  // Nodes whose arrays for the backward pass (LayerArrays::kept) the last forward did not keep.
  const std::set<int>& lost_arrays() const { return lost_arrays_; }

 private:
  class RecomputedBlob;
  class Making;
  class FreedDiff;
  bool trains() const { return arena_ && arena_->arrays().training; }
  // The steps with a node that writes the memory.
  const std::vector<size_t>& WritersOf(const SyncedMemory* memory);
  void LoseDiff(int blob);
  // The nodes that may run again before a backward that requests gradients after the forward.
  std::set<int> MayRepeat() const;
  void FindReads();
  bool ParametersChanged() const;

  const Wiring& wiring_;
  NodeRunner* runner_;
  NetRanges* ranges_;
  const Plan& plan_;
  Works* works_;
  ActivationArena* arena_;
  // WritersOf, once a blob was forgotten.
  std::unordered_map<const SyncedMemory*, std::vector<size_t>> writers_;
  std::vector<std::shared_ptr<RecomputedBlob>> sources_;  // of blobs; null until one is forgotten
  std::vector<std::shared_ptr<FreedDiff>> freed_diffs_;   // of blobs; null until one is freed
  std::vector<uint64_t> parameter_versions_;              // at the last forward, if it trains
  int making_ = 0;                                        // nested calls of RecomputedBlob::Make
  std::unique_ptr<LateReads> late_reads_;
  // The sources of the blobs that are not stored (`forgotten_`, `now_`).
  std::vector<BlobBase*> reads_;
  std::vector<int> forgotten_, now_;
  std::set<int> lost_arrays_;
  uint64_t lost_plan_ = 0;  // of the arena
};

}  // namespace caffe

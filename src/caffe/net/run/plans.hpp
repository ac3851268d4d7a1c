#pragma once

#include <memory>
#include <set>
#include <vector>

#include "executor.hpp"
#include "memory_forecast.hpp"

namespace caffe {

// The two plans of a net, each with its executor: one for whole passes, whose steps may cover
// several layers, and one that runs layer by layer. They are made again when what they follow from
// changes: blobs that are kept, gradients, ranges of blobs that are joined, the device.
class Plans {
 public:
  Plans(const Wiring& wiring, const PassRooms& rooms);
  Executor& whole() const { return *whole_; }
  Executor& by_layer() const { return *by_layer_; }
  // Blobs that the last forward did not keep can be read after this, too.
  void Make();
  // Increased by Make.
  int serial() const { return serial_; }

  // Makes them again if other blobs than before have the ranges of the blobs that join them.
  // `whole`: a whole forward follows.
  void FollowRanges(bool whole);
  // Every forward stores the user's blobs of these names, and a backward in the arena their diffs.
  void Keep(const std::vector<std::string>& blobs);
  // Blobs inside steps that train, and blobs in kNHWC, are not stored: those that the caller sees
  // through views are, from now on.
  void StoreViewed();
  // From now on no step covers several layers; the caller calls Make.
  void ComputeByLayer() { covers_layers_ = false; }
  bool covers_layers() const { return covers_layers_; }

  // The memory that the net needs; without the arena of whole passes, the memory that it needs if
  // every blob is stored.
  MemoryNeeds Needs() const;
  MemoryNeeds NeedsByLayer(bool backward) const;

 private:
  std::vector<std::vector<bool>> TiedBottoms() const;
  std::vector<PlanNode> Nodes() const;
  PlanOptions Options(const std::vector<PlanNode>& nodes) const;
  std::set<int> StoredBlobs(const std::vector<PlanNode>& nodes) const;
  void AddTraining(PlanOptions* options) const;
  // `whole`: the plan is for whole passes, which may use an arena.
  std::unique_ptr<Executor> MakeExecutor(const std::vector<PlanNode>& nodes,
                                         const PlanOptions& options, bool whole) const;
  MemoryNeeds Count(const Executor& executor, bool backward) const;

  const Wiring& wiring_;
  const PassRooms rooms_;
  bool covers_layers_ = true;
  std::set<std::string> kept_;  // blobs of the user
  std::set<int> viewed_;        // blobs that are stored for views, in Wiring::blobs
  // For each node: TiedBottoms at an epoch of the ranges.
  std::vector<std::vector<bool>> tied_;
  int planned_epoch_ = 0, serial_ = 0;
  std::unique_ptr<Executor> whole_, by_layer_;
};

}  // namespace caffe

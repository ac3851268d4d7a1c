#pragma once

#include <memory>
#include <vector>

#include "caffe/layer/step_state.hpp"
#include "caffe/net/wiring.hpp"
#include "graph_epoch.hpp"

namespace caffe {

// The tops that are losses: their weighted sum, and the initial diffs of a backward pass.
class LossSeeds {
 public:
  // `state` must outlive this object.
  LossSeeds(const Wiring& wiring, StepState* state);
  // The weighted sum of the losses of the last forward, read from the device.
  double Sum() const;
  // Writes weight times loss scale to the diffs of the losses among the tops of `nodes`. A diff
  // that the caller wrote is kept, unless the loss scale is not 1.
  void Seed(const std::vector<int>& nodes, Device* device);
  // Adds the state that Seed depends on, besides the net. While a diff has been written since the
  // last Seed, the state is incomplete: Seed has to look at it.
  void AddToEpoch(GraphEpoch* epoch) const;
  // Call this after the work of Seed was replayed.
  void NoteSeeded();
  // Drops the kernels of the previous device.
  void SetDevice();

 private:
  struct Loss {
    BlobBase* blob;
    float weight;
    int node;
    std::unique_ptr<Kernel> seed;
    // The diff written by Seed: if its version differs, the caller has written it.
    std::shared_ptr<SyncedMemory> diff;
    uint64_t version = 0;
    bool given = false, seeded = false;
  };
  bool WrittenByCaller(const Loss& loss) const;

  StepState* state_;
  std::vector<Loss> losses_;
};

}  // namespace caffe

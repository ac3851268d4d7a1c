#pragma once

#include <memory>
#include <vector>

#include "caffe/layer/step_state.hpp"
#include "caffe/net/wiring.hpp"

namespace caffe {

// The tops that count as losses: their weighted sum, and the diffs with which a backward pass begins.
class LossSeeds {
 public:
  // `state` outlives this object.
  LossSeeds(const Wiring& wiring, StepState* state);
  // The weighted sum of the losses of the last forward; reads them from the device.
  double Sum() const;
  // Writes weight times loss scale into the diffs of the losses that `nodes` make. A diff that the
  // caller has written stays, unless the loss scale is not 1: then the weights always count.
  void Seed(const std::vector<int>& nodes, Device* device);
  // Forgets kernels of the device before.
  void SetDevice();

 private:
  struct Loss {
    BlobBase* blob;
    float weight;
    int node;
    std::unique_ptr<Kernel> seed;
    // The diff as Seed left it: the caller has written it if its version differs.
    std::shared_ptr<SyncedMemory> diff;
    uint64_t version = 0;
    bool given = false, seeded = false;
  };
  bool WrittenByCaller(const Loss& loss) const;

  StepState* state_;
  std::vector<Loss> losses_;
};

}  // namespace caffe

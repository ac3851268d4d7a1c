#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "caffe/memory/blob.hpp"

namespace caffe {

class Net;

// The losses of the last iterations, kept on the device so that recording one does not wait for it.
class LossWindow {
 public:
  // Averages over `iterations` iterations of `passes` forwards each.
  LossWindow(Net* net, int iterations, int passes);
  // Drops the recorded losses.
  void Reset() { recorded_ = 0; }
  // Call this after every forward.
  void Record();
  // Mean weighted loss of the iterations since Reset, at most the last `iterations`; 0 before the
  // first. Waits for the device, and throws what Net::CheckData throws.
  double Mean();

 private:
  struct Loss {
    BlobBase* blob;
    float weight;
    int64_t bytes, offset;  // in a slot
  };
  void MakeRing();

  Net* net_;
  int64_t slots_;
  int64_t recorded_ = 0;
  std::vector<Loss> losses_;
  int64_t slot_bytes_ = 0;
  std::unique_ptr<SyncedMemory> ring_;  // null while one forward is all that is averaged
};

}  // namespace caffe

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "caffe/memory/blob.hpp"

namespace caffe {

// Learnable blobs with their multipliers, as a net lists them.
struct LearnableParameters {
  std::vector<BlobBase*> blobs;  // each once; float or double
  std::vector<float> lr_mult, decay_mult;
  std::vector<std::shared_ptr<BlobBase>> all;  // also those that share memory with one of `blobs`
};

// One memory for the data of all learnable blobs of a type and one for their diffs, so that clear,
// norm, reduction and update are few launches. Blobs of equal multipliers lie side by side, those
// of later layers first, because their gradients are complete first.
class ParameterArena {
 public:
  // A run of elements with equal multipliers.
  struct Run {
    int64_t begin, count;
    float lr_mult, decay_mult;
  };
  struct Part {
    DataType type;
    int64_t count = 0;  // elements, with the gaps between blobs, which hold zeros
    std::shared_ptr<SyncedMemory> data, diff;
    std::vector<Run> runs;
  };
  // Where a blob lies.
  struct Place {
    int part;
    int64_t begin;
  };

  // Moves the blobs into the arena, with what they hold. Throws for a blob of another type.
  ParameterArena(const LearnableParameters& parameters, Device* device);

  const std::vector<Part>& parts() const { return parts_; }
  // Of parameter number i of LearnableParameters::blobs.
  const Place& place(int i) const { return places_[i]; }
  // One fill for each type.
  void ClearDiffs();
  // Memory as large as a part's, zeros: a state of an update rule.
  std::shared_ptr<SyncedMemory> MakeState(int part, const std::string& purpose) const;

 private:
  Device* device_;
  std::vector<Part> parts_;
  std::vector<Place> places_;
};

}  // namespace caffe

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "caffe/memory/blob.hpp"

namespace caffe {

// Learnable blobs with their multipliers, as a net lists them.
struct LearnableParameters {
  std::vector<BlobBase*> blobs;  // each once; float or double
  std::vector<float> lr_mult, decay_mult;
};

// The data, or the diffs, of several blobs side by side in one buffer on the blobs' device, so that
// one launch computes all of them. Each remains a separate memory: a slice of the buffer. A slice
// that left the buffer, because its blob moved to another device, returns at the next access.
class ArenaArray {
 public:
  enum class Of { kData, kDiffs };
  ArenaArray(Of of, int64_t bytes, std::string purpose);
  void Add(BlobBase* blob, int64_t offset) { slices_.push_back({blob, offset}); }
  // Brings all slices into the buffer; allocates it if there is none.
  void Gather();
  // The buffer, for launches that read all of it, and for launches that read and write all of it.
  DevicePtr Read();
  DevicePtr ReadAndWrite();
  // The bytes [begin, end) of it, for launches that read and write them.
  DevicePtr ReadAndWrite(int64_t begin, int64_t end);
  // One fill.
  void Clear();

 private:
  struct Slice {
    BlobBase* blob;
    int64_t offset;
  };
  SyncedMemory& MemoryOf(const Slice& slice) const;
  DevicePtr Whole() const;

  Of of_;
  int64_t bytes_;
  std::string purpose_;
  std::vector<Slice> slices_;
  // Held by the slices, so that it goes when they leave for another device.
  std::weak_ptr<DeviceBuffer> buffer_;
};

// Gradients that are summed over replicas together: bytes of the diffs of a part of the arena.
struct GradientBucket {
  size_t part = 0;
  int64_t begin = 0, end = 0;
  std::vector<int> members;  // indices in LearnableParameters::blobs
  bool operator==(const GradientBucket&) const = default;
};

// The learnable blobs of a net, by type. The data and the diffs of a type are in one ArenaArray
// each, in the order in which backward completes the gradients: later layers first. So clear, norm
// and update are one launch for each type, and the completed gradients are always a prefix.
class ParameterArena {
 public:
  // Blobs begin at multiples of this many elements; each block of so many has one multiplier.
  static constexpr int64_t kBlock = 64;

  struct Part {
    DataType type;
    int64_t count = 0;  // elements, with the gaps between blobs, which hold zeros
    ArenaArray data, diff;
    // (blocks, 2): lr_mult and decay_mult of each block.
    std::shared_ptr<Blob<float>> multipliers;
    std::vector<int> members;      // indices in LearnableParameters::blobs
    std::vector<int64_t> offsets;  // of the members, in bytes
  };

  // Throws for a blob that is neither float nor double.
  ParameterArena(const LearnableParameters& parameters, Device* device);

  std::vector<Part>& parts() { return parts_; }
  // All diffs, in the order in which backward completes them: each bucket ends with the first blob
  // by which it has at least so many bytes.
  std::vector<GradientBucket> Buckets(int64_t bytes) const;
  // Brings data and diffs into their buffers and sets the diffs to zero: one fill for each type.
  void ClearDiffs();
  // An array laid out as the part's, of the data of other blobs: blobs[i] goes with parameter i.
  ArenaArray ArrayOf(const Part& part, const std::vector<std::shared_ptr<BlobBase>>& blobs,
                     const std::string& purpose) const;
  // Moves the tables; the blobs move with their net.
  void SetDevice(Device* device);

 private:
  std::vector<Part> parts_;
};

}  // namespace caffe

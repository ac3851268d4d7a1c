#pragma once

#include <cstdint>
#include <set>
#include <vector>

namespace caffe {

// The offsets of the buffers of a sequence of steps in one arena. Buffers share bytes if their
// lifetimes have no step in common, or if a step writes one over another.
struct MemoryPlan {
  // Buffers by index. A buffer lives from the first step that writes it to the last one that uses
  // it. A step that changes a buffer in place both reads and writes it.
  struct Step {
    std::vector<int> reads, writes;
    // The step may write this buffer over that one, of the same size, if it is the last to read it;
    // -1: it may not.
    int written = -1, over = -1;
  };
  // The offset of a buffer outside the arena, which has separate memory.
  static constexpr int64_t kOwn = -1;

  std::vector<int64_t> offsets;  // of each buffer
  int64_t bytes = 0;             // of the arena

  // `bytes[b]` is the size of buffer b; offsets are multiples of `alignment`. These buffers get
  // separate memory: those in `kept`, those that no step uses, and those that are read before a
  // step writes them, because their content comes from outside. Depends only on the arguments.
  static MemoryPlan Make(const std::vector<Step>& steps, const std::vector<int64_t>& bytes,
                         const std::set<int>& kept, int64_t alignment = 256);
};

}  // namespace caffe

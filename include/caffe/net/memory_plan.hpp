#pragma once

#include <cstdint>
#include <set>
#include <vector>

namespace caffe {

// Where the buffers of a sequence of steps lie in one arena. Buffers whose lifetimes have no step in
// common share bytes.
struct MemoryPlan {
  // Buffers by index. A buffer lives from the first step that writes it to the last that uses it. One
  // that a step changes in place is read and written by it.
  struct Step {
    std::vector<int> reads, writes;
  };
  // The offset of a buffer outside the arena: its memory is its own.
  static constexpr int64_t kOwn = -1;

  std::vector<int64_t> offsets;  // of each buffer
  int64_t bytes = 0;             // of the arena

  // `bytes[b]` is the size of buffer b; offsets are multiples of `alignment`. Buffers of `kept`, those
  // that no step uses, and those that are read before a step writes them, whose content comes from
  // outside, lie in memory of their own. Depends on the arguments alone.
  static MemoryPlan Make(const std::vector<Step>& steps, const std::vector<int64_t>& bytes,
                         const std::set<int>& kept, int64_t alignment = 256);
};

}  // namespace caffe

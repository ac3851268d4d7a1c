#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace caffe {

// Bytes of a buffer that a piece of work reads, or reads and writes: [begin, end), or, of an array
// in rows, [first, last) of each row of `pitch` bytes.
struct MemoryUse {
  const void* buffer;
  int64_t begin, end;
  bool writes;
  int64_t pitch = 0, first = 0, last = 0;

  bool Overlaps(const MemoryUse& other) const;
};

// Finds which pieces of work must run after which others, if they compute the same in any such
// order as one after the other: those that use the same bytes, if one of them writes these.
class WorkOrder {
 public:
  // Adds a piece of work, and returns those after which it must run; ascending. Pieces that must
  // run before one of these are left out. The first piece is 0.
  std::vector<int> Add(std::span<const MemoryUse> uses);

  int pieces() const { return static_cast<int>(before_.size()); }
  // The pieces of the longest chain: if each took as long as any other, and those that may run at
  // the same time did so, all would take as long as this number of pieces.
  int longest_chain() const { return longest_; }

 private:
  struct Past {
    MemoryUse use;
    int piece;
  };
  using Bits = std::vector<uint64_t>;

  std::unordered_map<const void*, std::vector<Past>> past_;  // of each buffer
  std::vector<Bits> before_;  // of each piece: all that must precede it
  std::vector<int> chain_;    // the longest chain that ends with it
  int longest_ = 0;
};

}  // namespace caffe

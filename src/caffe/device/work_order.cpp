#include "caffe/device/work_order.hpp"

#include <algorithm>
#include <functional>

namespace caffe {
namespace {

constexpr int kWord = 64;

bool Has(const std::vector<uint64_t>& bits, int i) {
  const size_t word = static_cast<size_t>(i / kWord);
  return word < bits.size() && (bits[word] >> (i % kWord) & 1);
}

void Set(std::vector<uint64_t>* bits, int i) {
  const size_t word = static_cast<size_t>(i / kWord);
  if (word >= bits->size()) bits->resize(word + 1);
  (*bits)[word] |= uint64_t{1} << (i % kWord);
}

void SetAll(std::vector<uint64_t>* bits, const std::vector<uint64_t>& more) {
  if (more.size() > bits->size()) bits->resize(more.size());
  for (size_t i = 0; i < more.size(); ++i) (*bits)[i] |= more[i];
}

}  // namespace

bool MemoryUse::Overlaps(const MemoryUse& other) const {
  if (begin >= other.end || other.begin >= end) return false;
  const bool same_rows = pitch > 0 && pitch == other.pitch && begin == other.begin;
  return !same_rows || (first < other.last && other.first < last);
}

std::vector<int> WorkOrder::Add(std::span<const MemoryUse> uses) {
  const int piece = pieces();
  std::vector<int> conflicts;
  for (const MemoryUse& use : uses) {
    for (const Past& past : past_[use.buffer]) {
      const bool writes = past.use.writes || use.writes;
      if (writes && past.use.Overlaps(use)) conflicts.push_back(past.piece);
    }
  }
  // Later pieces first: what precedes one of them need not be listed.
  std::sort(conflicts.begin(), conflicts.end(), std::greater<>());
  std::vector<int> after;
  Bits before;
  int chain = 0;
  for (const int conflict : conflicts) {
    if (Has(before, conflict)) continue;
    after.push_back(conflict);
    SetAll(&before, before_[conflict]);
    Set(&before, conflict);
    chain = std::max(chain, chain_[conflict]);
  }
  std::reverse(after.begin(), after.end());
  before_.push_back(std::move(before));
  chain_.push_back(chain + 1);
  longest_ = std::max(longest_, chain + 1);
  for (const MemoryUse& use : uses) {
    std::vector<Past>& past = past_[use.buffer];
    if (use.writes && use.pitch == 0) {
      // Later pieces that use these bytes run after this one.
      std::erase_if(past, [&](const Past& one) {
        return use.begin <= one.use.begin && one.use.end <= use.end;
      });
    }
    past.push_back({use, piece});
  }
  return after;
}

}  // namespace caffe

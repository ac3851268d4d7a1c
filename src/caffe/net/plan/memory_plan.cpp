#include "caffe/net/memory_plan.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

// More buffers are not compared with each other.
constexpr size_t kMostCompared = 3000;

struct Buffer {
  int index;
  int64_t bytes;
  int first, last;  // steps
  bool Meets(const Buffer& other) const { return first <= other.last && other.first <= last; }
};

struct Placed {
  Buffer buffer;
  int64_t offset;
  int64_t end() const { return offset + buffer.bytes; }
};

// The buffers in `placed` whose lifetimes overlap that of `buffer`, by offset.
std::vector<Placed> Neighbours(const Buffer& buffer, const std::vector<Placed>& placed) {
  std::vector<Placed> found;
  for (const Placed& other : placed) {
    if (other.buffer.Meets(buffer)) found.push_back(other);
  }
  std::sort(found.begin(), found.end(),
            [](const Placed& a, const Placed& b) { return a.offset < b.offset; });
  return found;
}

int64_t LowestOffset(int64_t bytes, const std::vector<Placed>& neighbours) {
  int64_t offset = 0;
  for (const Placed& other : neighbours) {
    if (other.offset - offset >= bytes) break;
    offset = std::max(offset, other.end());
  }
  return offset;
}

// The highest offset that ends at or below `limit`; negative if there is none.
int64_t HighestOffset(int64_t bytes, std::vector<Placed> neighbours, int64_t limit) {
  std::sort(neighbours.begin(), neighbours.end(),
            [](const Placed& a, const Placed& b) { return a.end() > b.end(); });
  int64_t end = limit;
  for (const Placed& other : neighbours) {
    if (end - other.end() >= bytes) break;
    end = std::min(end, other.offset);
  }
  return end - bytes;
}

// Bytes that live at the busiest step: a lower bound for the arena.
int64_t LeastBytes(const std::vector<Buffer>& buffers, int steps) {
  std::vector<int64_t> changes(steps + 1, 0);
  for (const Buffer& buffer : buffers) {
    changes[buffer.first] += buffer.bytes;
    changes[buffer.last + 1] -= buffer.bytes;
  }
  int64_t alive = 0, most = 0;
  for (const int64_t change : changes) most = std::max(most, alive += change);
  return most;
}

int64_t End(const std::vector<Placed>& placed) {
  int64_t end = 0;
  for (const Placed& one : placed) end = std::max(end, one.end());
  return end;
}

// Large buffers first, each at the lowest offset where it fits ("greedy by size" of Pisarchyk and
// Lee, arXiv 2001.03288).
std::vector<Placed> PlaceBySize(std::vector<Buffer> buffers) {
  std::stable_sort(buffers.begin(), buffers.end(),
                   [](const Buffer& a, const Buffer& b) { return a.bytes > b.bytes; });
  std::vector<Placed> placed;
  for (const Buffer& buffer : buffers) {
    placed.push_back({buffer, LowestOffset(buffer.bytes, Neighbours(buffer, placed))});
  }
  return placed;
}

// In the order of the steps, at the bottom of an arena of `limit` bytes, or at its top if the
// bottom is occupied: a chain of layers, with two live buffers at a time, then needs no more bytes
// than these.
std::vector<Placed> PlaceAtBothEnds(std::vector<Buffer> buffers, int64_t limit) {
  std::stable_sort(buffers.begin(), buffers.end(),
                   [](const Buffer& a, const Buffer& b) { return a.first < b.first; });
  std::vector<Placed> placed;
  for (const Buffer& buffer : buffers) {
    const std::vector<Placed> neighbours = Neighbours(buffer, placed);
    int64_t offset = LowestOffset(buffer.bytes, neighbours);
    const int64_t top = HighestOffset(buffer.bytes, neighbours, limit);
    if (offset > 0 && top >= 0) offset = top;
    placed.push_back({buffer, offset});
  }
  return placed;
}

// In the order of the steps, each in the smallest gap where it fits, for more buffers than can be
// compared with each other: an unrolled recurrent layer has tens of thousands.
std::vector<Placed> PlaceByStep(std::vector<Buffer> buffers) {
  std::stable_sort(buffers.begin(), buffers.end(),
                   [](const Buffer& a, const Buffer& b) { return a.first < b.first; });
  std::map<int64_t, int64_t> gaps;              // offset -> bytes
  std::set<std::pair<int64_t, int64_t>> sizes;  // (bytes, offset) of the gaps
  int64_t end = 0;
  const auto remove = [&](int64_t offset) {
    sizes.erase({gaps.at(offset), offset});
    gaps.erase(offset);
  };
  const auto add = [&](int64_t offset, int64_t bytes) {
    const auto next = gaps.find(offset + bytes);
    if (next != gaps.end()) {
      bytes += next->second;
      remove(next->first);
    }
    auto before = gaps.lower_bound(offset);
    if (before != gaps.begin() && std::prev(before)->first + std::prev(before)->second == offset) {
      --before;
      offset = before->first;
      bytes += before->second;
      remove(offset);
    }
    gaps[offset] = bytes;
    sizes.insert({bytes, offset});
  };
  std::vector<Placed> placed;
  std::set<std::pair<int, size_t>> alive;  // (last step, index in `placed`)
  for (const Buffer& buffer : buffers) {
    while (!alive.empty() && alive.begin()->first < buffer.first) {
      const Placed& dead = placed[alive.begin()->second];
      if (dead.buffer.bytes > 0) add(dead.offset, dead.buffer.bytes);
      alive.erase(alive.begin());
    }
    int64_t offset = end;
    const auto gap = sizes.lower_bound({buffer.bytes, 0});
    if (gap != sizes.end()) {
      offset = gap->second;
      const int64_t rest = gap->first - buffer.bytes;
      remove(offset);
      if (rest > 0) add(offset + buffer.bytes, rest);
    } else {
      // The last gap may lie at the end, and is enlarged then.
      const auto last = gaps.empty() ? gaps.end() : std::prev(gaps.end());
      if (last != gaps.end() && last->first + last->second == end) {
        offset = last->first;
        remove(offset);
      }
      end = offset + buffer.bytes;
    }
    alive.insert({buffer.last, placed.size()});
    placed.push_back({buffer, offset});
  }
  return placed;
}

// The better of both orders, by the end of the arena.
std::vector<Placed> Place(const std::vector<Buffer>& buffers, int steps) {
  if (buffers.size() > kMostCompared) return PlaceByStep(buffers);
  const int64_t least = LeastBytes(buffers, steps);
  std::vector<Placed> best = PlaceBySize(buffers);
  if (End(best) > least) {
    std::vector<Placed> other = PlaceAtBothEnds(buffers, least);
    if (End(other) < End(best)) best = std::move(other);
  }
  return best;
}

// Joins buffers of which a step writes one over the other: the first of them gets the lifetime of
// both. Returns for each index the one whose offset it has.
std::vector<int> Join(const std::vector<MemoryPlan::Step>& steps, int count,
                      std::vector<Buffer>* buffers) {
  std::vector<int> same(count), position(count, -1);
  for (int b = 0; b < count; ++b) same[b] = b;
  for (size_t i = 0; i < buffers->size(); ++i) position[(*buffers)[i].index] = static_cast<int>(i);
  std::vector<bool> joined(buffers->size(), false);
  for (int s = 0; s < static_cast<int>(steps.size()); ++s) {
    const int over = steps[s].over, written = steps[s].written;
    if (over < 0 || position[over] < 0 || position[written] < 0) continue;
    Buffer& from = (*buffers)[position[same[over]]];
    const Buffer& to = (*buffers)[position[written]];
    if (from.last != s || to.first != s || from.first == s || from.bytes != to.bytes) continue;
    joined[position[written]] = true;
    same[written] = same[over];
    from.last = to.last;
  }
  std::vector<Buffer> kept;
  for (size_t i = 0; i < buffers->size(); ++i) {
    if (!joined[i]) kept.push_back((*buffers)[i]);
  }
  *buffers = std::move(kept);
  return same;
}

}  // namespace

MemoryPlan MemoryPlan::Make(const std::vector<Step>& steps, const std::vector<int64_t>& bytes,
                            const std::set<int>& kept, int64_t alignment) {
  CAFFE_CHECK(alignment > 0, "an alignment of ", alignment, " bytes is not positive");
  const int count = static_cast<int>(bytes.size());
  std::vector<Buffer> all;
  for (int b = 0; b < count; ++b) {
    CAFFE_CHECK(bytes[b] >= 0, "buffer ", b, " has a negative size of ", bytes[b], " bytes");
    all.push_back({b, (bytes[b] + alignment - 1) / alignment * alignment, -1, -1});
  }
  std::set<int> own = kept;
  const auto use = [&](int b, int step, bool writes) {
    CAFFE_CHECK(b >= 0 && b < count, "step ", step, " uses buffer ", b, ", but there are ", count);
    if (all[b].first < 0) {
      all[b].first = step;
      if (!writes) own.insert(b);
    }
    all[b].last = step;
  };
  for (size_t step = 0; step < steps.size(); ++step) {
    for (int b : steps[step].reads) use(b, static_cast<int>(step), false);
    for (int b : steps[step].writes) use(b, static_cast<int>(step), true);
  }
  std::vector<Buffer> buffers;
  for (const Buffer& buffer : all) {
    if (buffer.first >= 0 && own.count(buffer.index) == 0) buffers.push_back(buffer);
  }
  const int end = static_cast<int>(steps.size());
  std::vector<Placed> best = Place(buffers, end);
  std::vector<Buffer> fewer = buffers;
  std::vector<int> same = Join(steps, count, &fewer);
  std::vector<Placed> joined = Place(fewer, end);
  const bool joins = fewer.size() < buffers.size() && End(joined) <= End(best);
  if (joins) best = std::move(joined);
  MemoryPlan plan;
  plan.offsets.assign(count, kOwn);
  plan.bytes = End(best);
  for (const Placed& one : best) plan.offsets[one.buffer.index] = one.offset;
  for (int b = 0; joins && b < count; ++b) plan.offsets[b] = plan.offsets[same[b]];
  return plan;
}

}  // namespace caffe

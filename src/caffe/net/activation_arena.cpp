#include "activation_arena.hpp"

#include <algorithm>
#include <map>

namespace caffe {

ActivationArena::ActivationArena(const Wiring& wiring, PassArrays arrays)
    : wiring_(wiring),
      arrays_(std::move(arrays)),
      own_(arrays_.arrays.size(), nullptr),
      seen_(arrays_.arrays.size()) {}

const std::shared_ptr<SyncedMemory>& ActivationArena::Memory(int array) const {
  const PassArrays::Array& one = arrays_.arrays[array];
  switch (one.kind) {
    case PassArrays::Kind::kData: return wiring_.blobs[one.blob]->data_memory();
    case PassArrays::Kind::kDiff: return wiring_.blobs[one.blob]->diff_memory();
    case PassArrays::Kind::kChannelsLast: return arrays_.channels_last[one.blob]->data_memory();
    default: return own_[array]->data_memory();
  }
}

// Records memories and sizes; returns whether one of them changed.
bool ActivationArena::Look(size_t begin, size_t end) {
  bool changed = false;
  for (size_t i = begin; i < end; ++i) {
    const std::shared_ptr<SyncedMemory>& memory = Memory(static_cast<int>(i));
    const Seen now{memory.get(), memory->bytes(), memory.use_count()};
    if (now == seen_[i]) continue;
    seen_[i] = now;
    changed = true;
  }
  return changed;
}

void ActivationArena::FindOwn() {
  int node = -1;
  LayerArrays arrays;
  for (size_t i = 0; i < own_.size(); ++i) {
    const PassArrays::Array& one = arrays_.arrays[i];
    if (one.kind != PassArrays::Kind::kOwn) continue;
    if (one.node != node) {
      node = one.node;
      const Node& of = wiring_.nodes[node];
      arrays = of.layer->Arrays(of.bottom, of.top);
    }
    own_[i] = (one.scratch ? arrays.scratch : arrays.kept)[one.index];
  }
}

void ActivationArena::Update() {
  ReshapeChannelsLast(wiring_, arrays_.channels_last);
  size_t blobs = 0;
  while (blobs < own_.size() && arrays_.arrays[blobs].kind != PassArrays::Kind::kOwn) ++blobs;
  const bool changed = Look(0, blobs);
  if (changed) FindOwn();  // their shapes follow those of the blobs
  if (!Look(blobs, own_.size()) && !changed) return;
  for (int array : placed_) {
    SyncedMemory& memory = *Memory(array);
    if (memory.borrowed() && memory.buffer() == buffer_) memory.Return();
  }
  MakePlan();
}

void ActivationArena::MakePlan() {
  ++plans_;
  const int count = static_cast<int>(seen_.size());
  std::map<const SyncedMemory*, int> first;
  std::map<int, long> holders;
  root_.clear();
  for (int i = 0; i < count; ++i) {
    root_.push_back(first.emplace(seen_[i].memory, i).first->second);
    ++holders[root_[i]];
  }
  std::vector<int> shared;  // arrays whose memory others hold, too
  for (int i = 0; i < count; ++i) {
    if (seen_[i].owners > holders[root_[i]]) shared.push_back(i);
  }
  for (const auto& [bottom, top] : arrays_.joined) {
    const int from = root_[bottom], to = root_[top];
    std::replace(root_.begin(), root_.end(), from, to);
  }
  std::set<int> kept;
  const auto keep = [&](int array) {
    kept.insert(root_[array]);
    kept.insert(count + root_[array]);
  };
  for (int array : arrays_.kept) keep(array);
  for (int array : shared) keep(array);
  // Second lifetimes begin with the steps that run again.
  std::vector<int> again(count, static_cast<int>(arrays_.steps.size()));
  for (const RecomputedSegment& segment : arrays_.segments) {
    for (size_t i = 0; i < segment.nodes.size(); ++i) {
      for (int id : arrays_.steps[segment.step + i].writes) again[root_[id]] = segment.step;
    }
  }
  std::vector<MemoryPlan::Step> steps(arrays_.steps.size());
  first_.assign(2 * count, -1);
  last_.assign(2 * count, -1);
  const auto buffer = [&](int array, int step) {
    const int root = root_[array], id = step >= again[root] ? count + root : root;
    if (first_[id] < 0) first_[id] = step;
    last_[id] = step;
    return id;
  };
  for (int s = 0; s < static_cast<int>(steps.size()); ++s) {
    for (int id : arrays_.steps[s].reads) steps[s].reads.push_back(buffer(id, s));
    for (int id : arrays_.steps[s].writes) steps[s].writes.push_back(buffer(id, s));
  }
  std::vector<int64_t> bytes(2 * count, 0);
  for (int i = 0; i < count; ++i) bytes[i] = bytes[count + i] = seen_[i].bytes;
  plan_ = MemoryPlan::Make(steps, bytes, kept);

  lost_.clear();
  dead_.clear();
  placed_.clear();
  const int forward = arrays_.forward_steps;
  std::vector<int> held;  // buffers
  for (int id = 0; id < 2 * count; ++id) {
    if (plan_.offsets[id] != MemoryPlan::kOwn && bytes[id] > 0) held.push_back(id);
  }
  for (int id : held) {
    if (id >= count) continue;
    placed_.push_back(id);
    if (first_[id] >= forward) continue;
    const int64_t begin = plan_.offsets[id], end = begin + bytes[id];
    const bool lost = std::any_of(held.begin(), held.end(), [&](int other) {
      return first_[other] > last_[id] && first_[other] < forward && plan_.offsets[other] < end &&
             begin < plan_.offsets[other] + bytes[other];
    });
    if (lost) lost_.push_back(id);
    if (last_[id] < forward) dead_.push_back(id);
  }
  // The share of the diffs: that of the step at which most bytes are alive.
  int64_t most = -1;
  diff_bytes_ = 0;
  for (int s = 0; s < static_cast<int>(steps.size()); ++s) {
    int64_t all = 0, diffs = 0;
    for (int id : held) {
      if (first_[id] > s || last_[id] < s) continue;
      const PassArrays::Array& array = arrays_.arrays[id % count];
      all += bytes[id];
      if (array.kind == PassArrays::Kind::kDiff || array.scratch) diffs += bytes[id];
    }
    if (all <= most) continue;
    most = all;
    diff_bytes_ = diffs;
  }
}

void ActivationArena::Borrow(int buffer) {
  SyncedMemory& memory = *Memory(buffer % static_cast<int>(seen_.size()));
  memory.Borrow(buffer_, plan_.offsets[buffer]);
}

void ActivationArena::Place(Device* device, int begin, int end) {
  if (plan_.bytes == 0) return;
  if (!buffer_ || buffer_->device() != device || buffer_->bytes() != plan_.bytes) {
    buffer_.reset();
    buffer_ =
        std::make_shared<DeviceBuffer>(device, plan_.bytes, "activations of net " + wiring_.name);
  }
  for (int id : placed_) {
    if (first_[id] >= begin && first_[id] < end) Borrow(id);
  }
}

void ActivationArena::PlaceAgain(int begin, int end) {
  const int count = static_cast<int>(seen_.size());
  for (int id = count; id < 2 * count; ++id) {
    if (plan_.offsets[id] != MemoryPlan::kOwn && first_[id] >= begin && first_[id] < end) {
      Borrow(id);
    }
  }
}

void ActivationArena::Exclude(int array) {
  if (arrays_.kept.insert(array).second) std::fill(seen_.begin(), seen_.end(), Seen());
}

bool ActivationArena::Holds(int array) const {
  const int root = root_[array];
  return plan_.offsets[root] != MemoryPlan::kOwn;
}

}  // namespace caffe

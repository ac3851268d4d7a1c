#include "activation_arena.hpp"

#include <algorithm>
#include <map>

#include "caffe/core/error.hpp"

namespace caffe {
namespace {

constexpr int64_t kPartAlignment = 16;  // bytes; libraries need it for arrays
// Smaller workspaces stay where they are, which processors have in a cache.
constexpr int64_t kLeastWorkspace = 1 << 20;

// The last step that writes each byte of the arena, as far as buffers were added.
class LastWrites {
 public:
  // `held`: the buffers that will be added or asked for.
  LastWrites(const std::vector<int64_t>& offsets, const std::vector<int64_t>& bytes,
             const std::vector<int>& held)
      : offsets_(offsets), bytes_(bytes) {
    for (const int id : held) bounds_.insert(bounds_.end(), {offsets[id], offsets[id] + bytes[id]});
    std::sort(bounds_.begin(), bounds_.end());
    bounds_.erase(std::unique(bounds_.begin(), bounds_.end()), bounds_.end());
    while (size_ < bounds_.size()) size_ *= 2;
    covering_.assign(2 * size_, -1);
    within_.assign(2 * size_, -1);
  }
  void Add(int buffer, int step) {
    const auto [begin, end] = Range(buffer);
    Visit(1, 0, size_, begin, end, [&](size_t node, bool whole) {
      within_[node] = std::max(within_[node], step);
      if (whole) covering_[node] = std::max(covering_[node], step);
    });
  }
  // The last step that writes bytes of the buffer; -1 if no step writes them.
  int Last(int buffer) const {
    const auto [begin, end] = Range(buffer);
    int last = -1;
    Visit(1, 0, size_, begin, end, [&](size_t node, bool whole) {
      last = std::max(last, whole ? within_[node] : covering_[node]);
    });
    return last;
  }

 private:
  std::pair<size_t, size_t> Range(int buffer) const {
    const auto at = [&](int64_t bound) {
      return static_cast<size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), bound) -
                                 bounds_.begin());
    };
    return {at(offsets_[buffer]), at(offsets_[buffer] + bytes_[buffer])};
  }
  // Calls the function for nodes of a tree over the bounds, from its root: those within [begin,
  // end), as a whole, and those above them.
  template <class Function>
  void Visit(size_t node, size_t low, size_t high, size_t begin, size_t end,
             const Function& function) const {
    if (end <= low || high <= begin) return;
    const bool whole = begin <= low && high <= end;
    function(node, whole);
    if (whole) return;
    const size_t middle = (low + high) / 2;
    Visit(2 * node, low, middle, begin, end, function);
    Visit(2 * node + 1, middle, high, begin, end, function);
  }

  const std::vector<int64_t>&offsets_, &bytes_;
  std::vector<int64_t> bounds_;
  size_t size_ = 1;
  std::vector<int> covering_, within_;  // of each node of the tree
};

}  // namespace

void StepWorkspaces::Set(size_t step, const Work& work) {
  const int64_t need = work.workspace_bytes();
  bytes[step] = work.uses_net_workspace() ? 0 : need;
  if (work.uses_net_workspace()) shared = std::max(shared, need);
}

ActivationArena::ActivationArena(const Wiring& wiring, PassArrays arrays)
    : wiring_(wiring),
      arrays_(std::move(arrays)),
      blobs_(arrays_.arrays.size(), nullptr),
      seen_(arrays_.arrays.size()) {
  for (size_t i = 0; i < arrays_.blobs.size(); ++i) blobs_[i] = arrays_.blobs[i].get();
}

const std::shared_ptr<SyncedMemory>& ActivationArena::Memory(int array) const {
  const BlobBase& blob = *blobs_[array];
  return arrays_.arrays[array].kind == Array::Kind::kDiff ? blob.diff_memory() : blob.data_memory();
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
  for (size_t i = arrays_.blobs.size(); i < blobs_.size(); ++i) {
    const Array& one = arrays_.arrays[static_cast<int>(i)];
    if (one.node != node) {
      node = one.node;
      const Node& of = wiring_.nodes[node];
      arrays = of.layer->Arrays(of.bottom, of.top);
    }
    blobs_[i] = (one.scratch ? arrays.scratch : arrays.kept)[one.index];
  }
}

void ActivationArena::Update(const StepWorkspaces& workspaces) {
  ReshapeArrays(wiring_, arrays_.arrays, arrays_.blobs);
  const size_t blobs = arrays_.blobs.size();
  const bool changed = Look(0, blobs);
  if (changed) FindOwn();  // their shapes follow those of the blobs
  const bool needs = workspaces.bytes != workspaces_.bytes;
  if (!Look(blobs, blobs_.size()) && !changed && !needs) return;
  workspaces_ = workspaces;
  for (const auto* arrays : {&placed_, &part_arrays_}) {
    for (int array : *arrays) {
      SyncedMemory& memory = *Memory(array);
      if (memory.borrowed() && memory.buffer() == buffer_) memory.Return();
    }
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
  JoinRoots();
  std::set<int> kept;
  const auto keep = [&](int array) {
    kept.insert(root_[array]);
    kept.insert(count + root_[array]);
  };
  for (int array : arrays_.kept) keep(array);
  for (int array : shared) keep(array);
  PlaceParts(kept);
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
    const MemoryPlan::Step& step = arrays_.steps[s];
    if (step.over < 0 || IsPart(step.over) || IsPart(step.written)) continue;
    if (!HaveOneOrder(step.over, step.written)) continue;
    steps[s].over = buffer(step.over, s);
    steps[s].written = buffer(step.written, s);
  }
  bytes_.assign(2 * count, 0);
  for (int i = 0; i < count; ++i) bytes_[i] = bytes_[count + i] = seen_[i].bytes;
  plan_ = MemoryPlan::Make(steps, bytes_, kept);
  PlanWorkspaces(std::move(steps), bytes_, kept);
  FindLost();
  CountShares();
}

// Whether an element of one array has the place of that element of the other: they have one layout,
// or layouts make no difference.
bool ActivationArena::HaveOneOrder(int one, int other) const {
  if (arrays_.arrays[one].layout == arrays_.arrays[other].layout) return true;
  const Shape& shape = blobs_[other]->shape();
  return shape.size() >= 2 && (shape[1] == 1 || ShapeCount(shape, 2) == 1);
}

// Gives the arrays of each pair in `joined` one root: that of the second.
void ActivationArena::JoinRoots() {
  if (arrays_.joined.empty()) return;
  std::map<int, int> into;  // root -> the one that replaces it
  const auto last = [&](int root) {
    std::vector<int> passed;
    for (auto next = into.find(root); next != into.end(); next = into.find(root)) {
      passed.push_back(root);
      root = next->second;
    }
    for (const int one : passed) into[one] = root;
    return root;
  };
  for (const auto& [bottom, top] : arrays_.joined) {
    const int from = last(root_[bottom]), to = last(root_[top]);
    if (from != to) into[from] = to;
  }
  for (int& root : root_) root = last(root);
}

// Those that the net's workspace need not have in any case are larger than `most`.
void ActivationArena::PlanWorkspaces(std::vector<MemoryPlan::Step> steps,
                                     std::vector<int64_t> bytes, const std::set<int>& kept) {
  const int64_t most = std::max(kLeastWorkspace, workspaces_.shared);
  int64_t largest = workspaces_.shared, rest = workspaces_.shared;
  for (size_t s = 0; s < workspaces_.bytes.size(); ++s) {
    const int64_t need = workspaces_.bytes[s];
    largest = std::max(largest, need);
    if (need <= most) rest = std::max(rest, need);
    if (need > most) steps[s].writes.push_back(static_cast<int>(bytes.size()));
    bytes.push_back(need > most ? need : 0);
  }
  MemoryPlan plan = MemoryPlan::Make(steps, bytes, kept);
  const bool fewer = plan.bytes + rest < plan_.bytes + largest;
  shared_workspace_ = fewer ? rest : largest;
  if (!fewer) return;
  plan_ = std::move(plan);
  bytes_ = std::move(bytes);
  for (int s = 0; s < static_cast<int>(workspaces_.bytes.size()); ++s) {
    first_.push_back(s);
    last_.push_back(s);
  }
}

DevicePtr ActivationArena::WorkspaceOf(size_t step, int64_t bytes) const {
  const size_t buffer = 2 * seen_.size() + step;
  if (!buffer_ || buffer >= bytes_.size() || bytes == 0 || bytes_[buffer] < bytes) return {};
  return buffer_->pointer() + plan_.offsets[buffer];
}

// The buffers that have bytes in the arena.
std::vector<int> ActivationArena::Held() const {
  std::vector<int> held;
  for (int id = 0; id < static_cast<int>(bytes_.size()); ++id) {
    if (plan_.offsets[id] != MemoryPlan::kOwn && bytes_[id] > 0) held.push_back(id);
  }
  return held;
}

void ActivationArena::FindLost() {
  lost_.clear();
  dead_.clear();
  placed_.clear();
  const int count = static_cast<int>(seen_.size()), forward = arrays_.forward_steps;
  const std::vector<int> held = Held();
  LastWrites writes(plan_.offsets, bytes_, held);
  for (int id : held) {
    if (first_[id] < forward) writes.Add(id, first_[id]);
  }
  for (int id : held) {
    if (id >= count) continue;
    placed_.push_back(id);
    if (first_[id] >= forward) continue;
    // A step may write another buffer over one that it reads.
    if (writes.Last(id) >= std::max(last_[id], first_[id] + 1)) lost_.push_back(id);
    if (last_[id] < forward) dead_.push_back(id);
  }
}

// The shares of diffs and workspaces: those at the step at which most bytes are alive.
void ActivationArena::CountShares() {
  const int count = static_cast<int>(seen_.size());
  const auto steps = arrays_.steps.size();
  // The changes of sums at the beginning of each step.
  std::vector<int64_t> all(steps + 1, 0), diffs(steps + 1, 0), workspaces(steps + 1, 0);
  for (int id : Held()) {
    const auto add = [&](std::vector<int64_t>* changes) {
      (*changes)[first_[id]] += bytes_[id];
      (*changes)[last_[id] + 1] -= bytes_[id];
    };
    add(&all);
    if (id >= 2 * count) {
      add(&workspaces);
      continue;
    }
    const Array& array = arrays_.arrays[id % count];
    if (array.kind == Array::Kind::kDiff || array.scratch) add(&diffs);
  }
  int64_t most = -1, now = 0, diffs_now = 0, workspaces_now = 0;
  diff_bytes_ = workspace_bytes_ = 0;
  for (size_t s = 0; s < steps; ++s) {
    now += all[s];
    diffs_now += diffs[s];
    workspaces_now += workspaces[s];
    if (now <= most) continue;
    most = now;
    diff_bytes_ = diffs_now;
    workspace_bytes_ = workspaces_now;
  }
}

// Finds the arrays that are parts of others. A part has the lifetime of the whole array, and so do
// parts of parts.
void ActivationArena::PlaceParts(const std::set<int>& kept) {
  part_of_.clear();
  part_arrays_.clear();
  in_place_.clear();
  holding_.clear();
  if (arrays_.parts.empty()) return;
  FindUses();
  Joined joined;
  for (const ArrayPart& part : arrays_.parts) {
    if (joined.node != part.part.node) {
      const Node& node = wiring_.nodes[part.part.node];
      joined = {part.part.node, node.layer->Facts().join, {}};
      int64_t elements = 0;
      for (size_t b = 0; joined.join && b < node.bottom.size(); ++b) {
        joined.offsets.push_back(elements);
        elements += node.bottom[b]->count(joined.join->axis);
      }
    }
    int64_t offset = 0;
    const bool can = CanBePart(part, joined, kept, &offset);
    CAFFE_CHECK(can || !part.channels, "a part of a blob in NHWC has no place in it");
    if (!can) continue;
    part_of_[root_[part.array]] = {root_[part.part.whole], offset};
    holding_.insert(root_[part.part.whole]);
    part_arrays_.push_back(root_[part.array]);
    in_place_.insert({part.part.node, part.part.bottom});
  }
  for (int& root : root_) {
    for (auto up = part_of_.find(root); up != part_of_.end(); up = part_of_.find(root)) {
      root = up->second.first;
    }
  }
}

// `offset`: in bytes.
bool ActivationArena::CanBePart(const ArrayPart& part, const Joined& joined,
                                const std::set<int>& kept, int64_t* offset) const {
  const int own = root_[part.array], whole = root_[part.part.whole];
  const BlobBase& top = *wiring_.nodes[part.part.node].top[0];
  if (top.type().is_packed()) return false;
  const int64_t size = static_cast<int64_t>(top.type().bytes());
  if (part.channels) {
    *offset = OffsetOf(wiring_, part.part) * size;
    return true;
  }
  const auto& join = joined.join;
  if (!join || top.count(0, join->axis) != 1 || own == whole) return false;
  *offset = joined.offsets[part.part.bottom] * size;
  const BlobBase& bottom = *wiring_.nodes[part.part.node].bottom[part.part.bottom];
  if (*offset % kPartAlignment != 0 || kept.count(own) || kept.count(whole)) return false;
  if (seen_[own].bytes != bottom.bytes() || bottom.bytes() == 0 || bottom.type() != top.type()) {
    return false;
  }
  // It is not a part of another array yet, nor does it hold this one.
  if (part_of_.count(own)) return false;
  for (auto up = part_of_.find(whole); up != part_of_.end(); up = part_of_.find(up->second.first)) {
    if (up->second.first == own) return false;
  }
  // Both are written before they are read; the part before the node runs, the whole array by the
  // node first. If later steps write the whole array, nothing reads the part then.
  bool own_written = false, whole_written_again = false;
  std::set<int> used(uses_[own].begin(), uses_[own].end());
  used.insert(uses_[whole].begin(), uses_[whole].end());
  for (const int s : used) {
    const auto uses = [&](const std::vector<int>& list, int root) {
      return std::any_of(list.begin(), list.end(), [&](int id) { return root_[id] == root; });
    };
    const MemoryPlan::Step& step = arrays_.steps[s];
    const bool writes_any = !arrays_.writes_nothing[s];
    const bool reads = uses(step.reads, own), writes = writes_any && uses(step.writes, own);
    if (reads && (!own_written || (s > part.step && whole_written_again))) return false;
    own_written = own_written || writes;
    if (writes && s >= part.step) return false;
    if (s < part.step && (uses(step.reads, whole) || uses(step.writes, whole))) return false;
    whole_written_again =
        whole_written_again || (s > part.step && writes_any && uses(step.writes, whole));
  }
  return own_written && !(holding_.count(own) > 0 && whole_written_again);
}

// The steps of the forward that use each root.
void ActivationArena::FindUses() {
  uses_.assign(root_.size(), {});
  for (int s = 0; s < arrays_.forward_steps; ++s) {
    for (const auto* arrays : {&arrays_.steps[s].reads, &arrays_.steps[s].writes}) {
      for (const int array : *arrays) {
        std::vector<int>& steps = uses_[root_[array]];
        if (steps.empty() || steps.back() != s) steps.push_back(s);
      }
    }
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
  for (int array : part_arrays_) {
    int64_t offset = 0;
    int root = array;
    for (auto up = part_of_.find(root); up != part_of_.end(); up = part_of_.find(root)) {
      offset += up->second.second;
      root = up->second.first;
    }
    Memory(array)->Borrow(buffer_, plan_.offsets[root] + offset);
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

void ActivationArena::AddStep(int index, MemoryPlan::Step step) {
  arrays_.steps.insert(arrays_.steps.begin() + index, std::move(step));
  arrays_.writes_nothing.insert(arrays_.writes_nothing.begin() + index, false);
  ++arrays_.forward_steps;
  for (ArrayPart& part : arrays_.parts) part.step += part.step >= index ? 1 : 0;
  for (RecomputedSegment& segment : arrays_.segments) segment.step += 1;
  std::fill(seen_.begin(), seen_.end(), Seen());
}

void ActivationArena::Exclude(int array) {
  if (arrays_.kept.insert(array).second) std::fill(seen_.begin(), seen_.end(), Seen());
}

void ActivationArena::Detach(const Part& part) {
  std::erase_if(arrays_.parts, [&](const ArrayPart& one) {
    return one.part.node == part.node && one.part.bottom == part.bottom;
  });
  std::fill(seen_.begin(), seen_.end(), Seen());
}

// Whether the array's memory begins within that of another one.
bool ActivationArena::IsPart(int array) const {
  return Memory(root_[array]).get() != Memory(array).get();
}

bool ActivationArena::Holds(int array) const {
  const int root = root_[array];
  return plan_.offsets[root] != MemoryPlan::kOwn;
}

bool ActivationArena::Uses(int array) const {
  const size_t root = static_cast<size_t>(root_[array]);
  return first_[root] >= 0 || first_[seen_.size() + root] >= 0;
}

}  // namespace caffe

#include "activation_arena.hpp"

#include <algorithm>

namespace caffe {

ActivationArena::ActivationArena(const Wiring& wiring, const std::vector<PlanNode>& nodes,
                                 const Plan& plan, const std::set<int>& kept)
    : wiring_(wiring) {
  const int blobs = static_cast<int>(wiring.blobs.size());
  for (int id = 0; id < blobs; ++id) root_.push_back(id);
  for (const PlanNode& node : nodes) {
    for (const Alias& alias : node.facts.aliases) {
      const int top = node.tops[alias.top];
      if (alias.bottom >= 0) root_[top] = root_[node.bottoms[alias.bottom]];
      if (alias.parameter >= 0) kept_.insert(root_[top]);
    }
  }
  for (int id : kept) kept_.insert(root_[id]);
  for (size_t n = 0; n < nodes.size(); ++n) {
    // The tops of a layer without bottoms, or with effects outside the device, are kept.
    const PlanNode& node = nodes[n];
    if (!node.bottoms.empty() && !node.facts.host) continue;
    for (int id : node.tops) kept_.insert(root_[id]);
    for (int id : node.bottoms) kept_.insert(root_[id]);
  }
  // Outputs: blobs that no later node reads.
  std::vector<bool> read(blobs, false);
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    for (int id : node->tops) {
      if (!read[root_[id]]) kept_.insert(root_[id]);
    }
    for (int id : node->bottoms) read[root_[id]] = true;
  }
  for (const Step& step : plan.steps) {
    MemoryPlan::Step use;
    for (int id : nodes[step.nodes[0]].bottoms) use.reads.push_back(root_[id]);
    if (step.residual >= 0) use.reads.push_back(root_[step.residual]);
    for (int id : step.tops) use.writes.push_back(root_[id]);
    steps_.push_back(std::move(use));
  }
}

std::vector<int64_t> ActivationArena::Sizes() const {
  std::vector<int64_t> sizes(root_.size(), 0);
  for (size_t id = 0; id < root_.size(); ++id) {
    if (root_[id] == static_cast<int>(id)) sizes[id] = wiring_.blobs[id]->data_memory()->bytes();
  }
  return sizes;
}

void ActivationArena::MakePlan() {
  std::vector<int64_t> sizes = Sizes();
  if (sizes == sizes_) return;
  plan_ = MemoryPlan::Make(steps_, sizes, kept_);
  sizes_ = std::move(sizes);
  std::vector<int> last(root_.size(), -1), first(root_.size(), -1);
  for (int s = 0; s < static_cast<int>(steps_.size()); ++s) {
    for (const std::vector<int>* ids : {&steps_[s].reads, &steps_[s].writes}) {
      for (int id : *ids) {
        if (first[id] < 0) first[id] = s;
        last[id] = s;
      }
    }
  }
  lost_.clear();
  const auto begin = [this](size_t id) { return plan_.offsets[id]; };
  const auto end = [this](size_t id) { return plan_.offsets[id] + sizes_[id]; };
  for (size_t id = 0; id < root_.size(); ++id) {
    bool lost = false;
    for (size_t other = 0; other < root_.size() && begin(id) != MemoryPlan::kOwn; ++other) {
      lost = lost || (begin(other) != MemoryPlan::kOwn && first[other] > last[id] &&
                      begin(other) < end(id) && begin(id) < end(other));
    }
    if (lost) lost_.push_back(static_cast<int>(id));
  }
}

void ActivationArena::Place(Device* device) {
  MakePlan();
  if (plan_.bytes == 0) return;
  if (!buffer_ || buffer_->device() != device || buffer_->bytes() < plan_.bytes) {
    buffer_ =
        std::make_shared<DeviceBuffer>(device, plan_.bytes, "activations of net " + wiring_.name);
  }
  for (size_t id = 0; id < root_.size(); ++id) {
    if (plan_.offsets[id] == MemoryPlan::kOwn) continue;
    SyncedMemory& memory = *wiring_.blobs[id]->data_memory();
    if (memory.buffer() != buffer_ || memory.offset() != plan_.offsets[id] || !memory.borrowed()) {
      memory.Borrow(buffer_, plan_.offsets[id]);
    }
  }
}

int64_t ActivationArena::Bytes() {
  MakePlan();
  return plan_.bytes;
}

std::vector<int> ActivationArena::Blobs() {
  MakePlan();
  std::vector<int> blobs;
  for (size_t id = 0; id < root_.size(); ++id) {
    if (plan_.offsets[root_[id]] != MemoryPlan::kOwn) blobs.push_back(static_cast<int>(id));
  }
  return blobs;
}

}  // namespace caffe

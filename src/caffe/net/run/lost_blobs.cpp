#include "lost_blobs.hpp"

#include <algorithm>
#include <utility>

#include "caffe/core/error.hpp"
#include "recomputed_blob.hpp"

namespace caffe {

// A diff whose memory another array got.
class LostBlobs::FreedDiff final : public SyncedMemory::Source {
 public:
  explicit FreedDiff(const BlobBase& blob) : name_(blob.name()) {}
  void Make(SyncedMemory*) override {
    CAFFE_THROW("the gradient of blob ", name_, " was not kept by the last iteration of training; ",
                "call net.keep('", name_, "') before training, or forward and backward of the net");
  }

 private:
  std::string name_;
};

LostBlobs::LostBlobs(const Wiring& wiring, NodeRunner* runner, NetRanges* ranges, const Plan& plan,
                     Works* works, ActivationArena* arena)
    : wiring_(wiring),
      runner_(runner),
      ranges_(ranges),
      plan_(plan),
      works_(works),
      arena_(arena),
      sources_(wiring.blobs.size()),
      freed_diffs_(wiring.blobs.size()),
      late_reads_(std::make_unique<LateReads>(wiring)) {}

LostBlobs::~LostBlobs() = default;

const std::vector<size_t>& LostBlobs::WritersOf(const SyncedMemory* memory) {
  const auto found = writers_.find(memory);
  if (found != writers_.end()) return found->second;
  writers_.clear();
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    if (plan_.steps[s].converts()) continue;
    for (const int node : plan_.steps[s].nodes) {
      for (const int id : wiring_.nodes[node].top_ids) {
        std::vector<size_t>& steps = writers_[wiring_.blobs[id]->data_memory().get()];
        if (steps.empty() || steps.back() != s) steps.push_back(s);
      }
    }
  }
  return writers_[memory];
}

void LostBlobs::Forget(int blob) {
  if (!sources_[blob]) sources_[blob] = std::make_shared<RecomputedBlob>(this, blob);
  wiring_.blobs[blob]->data_memory()->SetSource(sources_[blob]);
}

void LostBlobs::ForgetLost() {
  if (!arena_) return;
  if (lost_plan_ != arena_->plans()) {
    lost_plan_ = arena_->plans();
    lost_arrays_.clear();
    forgotten_.assign(1, -1);  // FindReads
  }
  for (const auto* arrays : {&arena_->lost_in_forward(), &arena_->parts()}) {
    for (int array : *arrays) {
      const Array& one = arena_->arrays().arrays[array];
      if (one.kind == Array::Kind::kOwn && !trains()) lost_arrays_.insert(one.node);
      Lose(array);
    }
  }
}

void LostBlobs::Lose(int array) {
  SyncedMemory& memory = *arena_->Memory(array);
  if (!memory.borrowed()) return;
  const Array& one = arena_->arrays().arrays[array];
  if (!one.in_c_order()) {
    memory.Return();
  } else if (one.kind == Array::Kind::kData) {
    Forget(one.blob);
  } else {
    LoseDiff(one.blob);
  }
}

void LostBlobs::LoseDiff(int blob) {
  std::shared_ptr<FreedDiff>& source = freed_diffs_[blob];
  if (!source) source = std::make_shared<FreedDiff>(*wiring_.blobs[blob]);
  wiring_.blobs[blob]->diff_memory()->SetSource(source);
}

void LostBlobs::LoseHiddenDiffs() {
  const PassArrays& arrays = arena_->arrays();
  std::set<const SyncedMemory*> used;  // diffs in C order
  for (size_t s = static_cast<size_t>(arrays.forward_steps); s < arrays.steps.size(); ++s) {
    for (const auto* list : {&arrays.steps[s].reads, &arrays.steps[s].writes}) {
      for (const int array : *list) {
        const Array& one = arrays.arrays[array];
        if (one.kind == Array::Kind::kDiff && one.in_c_order()) {
          used.insert(arena_->Memory(array).get());
        }
      }
    }
  }
  for (const Step& step : plan_.steps) {
    if (step.converts() || !works_->Trained(step.nodes.back())) continue;
    std::vector<int> lost = HiddenBlobs(wiring_, step);
    for (const int array : step.reads) {
      if (!plan_.arrays[array].in_c_order()) lost.push_back(plan_.arrays[array].blob);
    }
    for (const int blob : lost) {
      if (!used.count(wiring_.blobs[blob]->diff_memory().get())) LoseDiff(blob);
    }
  }
}

void LostBlobs::TakeFreedDiffs() {
  for (size_t blob = 0; blob < freed_diffs_.size(); ++blob) {
    SyncedMemory& memory = *wiring_.blobs[blob]->diff_memory();
    if (freed_diffs_[blob] && !memory.stored()) memory.Discard();
  }
}

std::vector<int> LostBlobs::TakeRead() {
  std::vector<int> read;
  for (size_t blob = 0; blob < sources_.size(); ++blob) {
    if (sources_[blob] && sources_[blob]->TakeRead()) read.push_back(static_cast<int>(blob));
  }
  return read;
}

void LostBlobs::NoteReads(bool again) {
  now_.clear();
  for (size_t blob = 0; blob < sources_.size(); ++blob) {
    if (sources_[blob] && !wiring_.blobs[blob]->data_memory()->stored()) {
      now_.push_back(static_cast<int>(blob));
    }
  }
  if (now_ != forgotten_ || !late_reads_->Records(reads_)) FindReads();
  late_reads_->Record(reads_, again);
}

// The works of a plan that does not train choose which of a layer's arrays they keep.
std::set<int> LostBlobs::MayRepeat() const {
  std::set<int> nodes = lost_arrays_;
  for (const Step& step : plan_.steps) {
    if (step.trains() || step.converts()) continue;
    const bool hides = step.fused() || !step.in_c_order();
    for (const int n : step.nodes) {
      const Node& node = wiring_.nodes[n];
      if (hides || !node.layer->Arrays(node.bottom, node.top).kept.empty()) nodes.insert(n);
    }
  }
  return nodes;
}

// Collects what is read by the nodes that make blobs that are not stored, and by the nodes that may
// run again before a backward.
void LostBlobs::FindReads() {
  forgotten_ = now_;
  reads_.clear();
  const auto add = [&](int node) {
    const BlobVec& bottom = wiring_.nodes[node].bottom;
    reads_.insert(reads_.end(), bottom.begin(), bottom.end());
    if (trains()) return;  // ParametersChanged
    for (const auto& blob : wiring_.nodes[node].layer->blobs()) reads_.push_back(blob.get());
  };
  for (int blob : forgotten_) {
    for (int node : sources_[blob]->nodes()) add(node);
  }
  if (!trains()) {
    for (int node : MayRepeat()) add(node);
  }
  LateReads::Sort(&reads_);
}

void LostBlobs::NoteParameters() {
  parameter_versions_.clear();
  for (const BlobBase* blob : wiring_.learnable) {
    parameter_versions_.push_back(blob->data_version());
  }
}

bool LostBlobs::ParametersChanged() const {
  for (size_t i = 0; i < parameter_versions_.size(); ++i) {
    if (wiring_.learnable[i]->data_version() != parameter_versions_[i]) return true;
  }
  return false;
}

void LostBlobs::TakeForgotten(LostBlobs* other) {
  parameter_versions_ = other->parameter_versions_;
  late_reads_.swap(other->late_reads_);
  for (size_t blob = 0; blob < sources_.size(); ++blob) {
    if (other->sources_[blob] && !wiring_.blobs[blob]->data_memory()->stored()) {
      Forget(static_cast<int>(blob));
    }
  }
}

void LostBlobs::MakeForgotten() {
  if (trains()) return;
  for (size_t blob = 0; blob < sources_.size(); ++blob) {
    if (!sources_[blob] || wiring_.blobs[blob]->data_memory()->stored()) continue;
    try {
      wiring_.blobs[blob]->device_data();
    } catch (const Error&) {
      // Shapes have changed. Reading the blob reports it.
    }
  }
}

void LostBlobs::DropForgotten() {
  for (size_t blob = 0; blob < sources_.size(); ++blob) {
    SyncedMemory& memory = *wiring_.blobs[blob]->data_memory();
    if (sources_[blob] && !memory.stored()) memory.Discard();
  }
}

void LostBlobs::MakeDependents(int first, int last, const std::vector<int>& written) {
  if (std::none_of(sources_.begin(), sources_.end(), [](const auto& one) { return one; })) return;
  // Memories that change in the pass, and those of blobs that depend on them; those that the pass
  // writes before it reads them.
  std::set<const SyncedMemory*> changes, overwritten, read;
  const auto memory_of = [&](int id) { return wiring_.blobs[id]->data_memory().get(); };
  const auto add = [&](int id) { changes.insert(memory_of(id)); };
  for (int id : written) add(id);
  const auto added = wiring_.AddedNodesBefore(first, last);
  std::vector<int> run(added.begin(), added.end());
  for (int n = first; n <= last; ++n) run.push_back(n);
  std::reverse(run.begin(), run.begin() + static_cast<int>(added.size()));  // as they run
  for (int n : run) {
    const Node& node = wiring_.nodes[n];
    for (int id : node.bottom_ids) {
      const int version = wiring_.Version(id);
      if (wiring_.versions.count(version)) {
        add(version);
        read.insert(memory_of(wiring_.UserBlob(version)));
      }
      if (!overwritten.count(memory_of(id))) read.insert(memory_of(id));
    }
    const LayerFacts facts = node.layer->Facts();
    const bool alias = std::any_of(facts.aliases.begin(), facts.aliases.end(),
                                   [](const Alias& one) { return one.bottom >= 0; });
    if (alias && n < first) continue;
    for (int id : node.top_ids) {
      for (int one : {id, wiring_.UserBlob(id)}) {
        add(one);
        if (!alias && !read.count(memory_of(one))) overwritten.insert(memory_of(one));
      }
    }
  }
  std::vector<int> wanted;
  std::set<const SyncedMemory*> made;
  for (bool grows = true; grows;) {
    grows = false;
    for (size_t blob = 0; blob < sources_.size(); ++blob) {
      const SyncedMemory* const memory = wiring_.blobs[blob]->data_memory().get();
      if (!sources_[blob] || memory->stored() || overwritten.count(memory)) continue;
      if (made.count(memory)) continue;
      for (int node : sources_[blob]->nodes()) {
        const BlobVec& bottom = wiring_.nodes[node].bottom;
        if (std::none_of(bottom.begin(), bottom.end(), [&](const BlobBase* one) {
              const SyncedMemory* const source = one->data_memory().get();
              return source != memory && changes.count(source) > 0;
            })) {
          continue;
        }
        changes.insert(memory);
        made.insert(memory);
        wanted.push_back(static_cast<int>(blob));
        grows = true;
        break;
      }
    }
  }
  for (int blob : wanted) wiring_.blobs[blob]->device_data();
}

}  // namespace caffe

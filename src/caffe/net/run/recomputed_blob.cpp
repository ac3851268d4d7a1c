#include "recomputed_blob.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "caffe/core/error.hpp"

namespace caffe {

// The scope in which nodes compute a blob again. Their bottoms and parameters have the content that
// the last forward read. Their other tops are written only if they are not stored and nothing else
// writes them, so that afterwards they, too, have the content of the last forward.
class LostBlobs::Making {
 public:
  Making(LostBlobs* lost, int blob, const std::vector<int>& nodes, const std::vector<int>& tops)
      : lost_(lost), made_(lost->wiring_.blobs[blob].get()), nodes_(nodes) {
    if (lost_->making_ == 0) restored_.emplace(*lost_->late_reads_);
    CheckReads(blob);
    ++lost_->making_;
    try {
      for (int top : tops) SpareOrNote(top);
    } catch (...) {
      End();
      throw;
    }
  }
  ~Making() { End(); }

  // All nodes have run.
  void Finish() {
    End();
    for (const BlobBase* blob : written_) lost_->late_reads_->Renew(*blob);
    lost_->late_reads_->Renew(*made_);
    if (lost_->making_ == 0) lost_->NoteReads(true);
  }

 private:
  const Wiring& wiring() const { return lost_->wiring_; }
  bool Runs(int node) const {
    return std::find(nodes_.begin(), nodes_.end(), node) != nodes_.end();
  }
  bool Writes(int node, const SyncedMemory* memory) const {
    const Node& one = wiring().nodes[node];
    for (const Alias& alias : one.layer->Facts().aliases) {
      if (alias.bottom >= 0) return false;
    }
    return std::any_of(one.top.begin(), one.top.end(), [memory](const BlobBase* top) {
      return top->data_memory().get() == memory;
    });
  }

  void CheckReads(int made) const {
    std::set<const SyncedMemory*> own;
    for (int node : nodes_) {
      for (const BlobBase* top : wiring().nodes[node].top) own.insert(top->data_memory().get());
    }
    const auto check = [&](const BlobBase& blob) {
      const SyncedMemory& memory = *blob.data_memory();
      if (own.count(&memory) || !memory.stored() || lost_->late_reads_->Has(blob)) return;
      const std::string& name = wiring().ShownName(wiring().Version(made));
      CAFFE_THROW("blob ", made_->name(), " was not kept by the last forward, and ",
                  memory.purpose(), " has changed since; call net.keep('", name,
                  "') before the forward");
    };
    for (int node : nodes_) {
      for (const BlobBase* bottom : wiring().nodes[node].bottom) check(*bottom);
      if (lost_->trains()) continue;  // ParametersChanged
      for (const auto& blob : wiring().nodes[node].layer->blobs()) check(*blob);
    }
  }

  void SpareOrNote(int top) {
    BlobBase& blob = *wiring().blobs[top];
    const SyncedMemory* const memory = blob.data_memory().get();
    if (memory == made_->data_memory().get() || scratch_.count(memory)) return;
    std::vector<int> others, own;  // that write it
    for (int n = 0; n <= wiring().last_node(); ++n) {
      if (Writes(n, memory)) (Runs(n) ? own : others).push_back(n);
    }
    if (own.empty()) return;
    if (!memory->stored() && others.empty()) {
      written_.push_back(&blob);
      return;
    }
    const std::vector<int>& read = wiring().nodes[own[0]].bottom_ids;
    const bool changes = std::any_of(read.begin(), read.end(), [&](int id) {
      return wiring().blobs[id]->data_memory().get() == memory;
    });
    CAFFE_CHECK(!changes, "blob ", made_->name(),
                " was not kept by the last forward, and computing ", "it changes blob ",
                blob.name(), "; call net.keep('", wiring().ShownName(wiring().Version(top)),
                "') before the forward");
    const auto scratch = MakeBlob(blob.type(), blob.device(), blob.shape(), blob.name());
    scratch_.insert(scratch->data_memory().get());
    publish_.insert(others.begin(), others.end());
    for (BlobBase* one : BlobsWith(wiring(), memory)) {
      if (one->count() != blob.count() || one->type() != blob.type()) continue;
      spared_.emplace_back(one, HolderOf(*one));
      TakeMemory(one, *scratch);
    }
  }

  void End() {
    if (ended_) return;
    ended_ = true;
    for (const auto& [blob, holder] : spared_) TakeMemory(blob, *holder);
    // The ranges that blobs show are those of their last writers.
    for (int node : publish_) lost_->ranges_->Publish(node);
    restored_.reset();
    --lost_->making_;
  }

  LostBlobs* lost_;
  BlobBase* made_;
  const std::vector<int>& nodes_;
  const MemoryWatcher::Quiet quiet_;
  std::optional<LateReads::Restored> restored_;
  std::vector<std::pair<BlobBase*, std::shared_ptr<BlobBase>>> spared_;
  std::set<const SyncedMemory*> scratch_;
  std::set<int> publish_;
  std::vector<const BlobBase*> written_;  // other blobs
  bool ended_ = false;
};

LostBlobs::RecomputedBlob::RecomputedBlob(LostBlobs* lost, int blob) : lost_(lost), blob_(blob) {
  // All steps that write the blob's memory. A step that swallows the blob is not run as a whole,
  // but its nodes up to the one that writes the blob.
  const Wiring& wiring = lost->wiring_;
  const SyncedMemory* const memory = wiring.blobs[blob]->data_memory().get();
  const auto writes = [&](const std::vector<int>& tops) {
    return std::any_of(tops.begin(), tops.end(),
                       [&](int top) { return wiring.blobs[top]->data_memory().get() == memory; });
  };
  for (const size_t s : lost->WritersOf(memory)) {
    const Step& step = lost->plan_.steps[s];
    size_t count = 0;
    for (size_t i = 0; i < step.nodes.size(); ++i) {
      if (writes(wiring.nodes[step.nodes[i]].top_ids)) count = i + 1;
    }
    if (count == 0) continue;
    nodes_.insert(nodes_.end(), step.nodes.begin(), step.nodes.begin() + count);
    const LayerBase& first = *wiring.nodes[step.nodes[0]].layer;
    const bool own_operator = step.fused() || (!step.in_c_order() && first.Facts().aliases.empty());
    if (own_operator && writes(wiring.nodes[step.nodes.back()].top_ids)) {
      parts_.push_back({step.nodes.back(), true});
    } else {
      for (size_t i = 0; i < count; ++i) parts_.push_back({step.nodes[i], false});
    }
  }
}

void LostBlobs::RecomputedBlob::Make(SyncedMemory*) {
  const BlobBase& blob = *lost_->wiring_.blobs[blob_];
  const std::string& name = lost_->wiring_.ShownName(lost_->wiring_.Version(blob_));
  CAFFE_CHECK(!lost_->ParametersChanged(), "blob ", blob.name(), " was not kept by the ",
              "last iteration of training, and the parameters have changed since; call ",
              "net.keep('", name, "') before training");
  for (int node : nodes_) {
    CAFFE_CHECK(lost_->runner_->HasNotedShapes(node), "blob ", blob.name(),
                " was not kept by the last forward, and blobs from which it is computed have ",
                "other shapes now; run forward first, or call net.keep('", name,
                "') before the forward");
  }
  if (lost_->making_ == 0) read_ = true;
  std::vector<int> tops;
  for (const Part& part : parts_) {
    const std::vector<int>& written = lost_->wiring_.nodes[part.node].top_ids;
    tops.insert(tops.end(), written.begin(), written.end());
  }
  Making making(lost_, blob_, nodes_, tops);
  for (const Part& part : parts_) {
    part.whole ? lost_->works_->RepeatStep(part.node) : lost_->works_->RepeatNode(part.node);
  }
  making.Finish();
}

bool LostBlobs::RecomputedBlob::TakeRead() {
  const bool again = read_ && read_before_;
  read_before_ = read_;
  read_ = false;
  return again;
}

}  // namespace caffe

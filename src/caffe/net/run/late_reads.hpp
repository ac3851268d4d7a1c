#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "caffe/memory/memory_watch.hpp"
#include "caffe/net/wiring.hpp"

namespace caffe {

// The blobs that the last forward read, for those that are computed when they are read: inputs,
// parameters and stored blobs. The caller may change these before the blob is read. So their
// content is copied right before the change, and after the forward if there is a view, through
// which the caller writes without notice. Records end with the next whole forward.
class LateReads final : public MemoryWatcher {
 public:
  explicit LateReads(const Wiring& wiring) : wiring_(wiring) {}

  // By memory, one of each.
  static void Sort(std::vector<BlobBase*>* blobs);
  // Whether the records are exactly those of these blobs, which must be sorted.
  bool Records(const std::vector<BlobBase*>& blobs) const;
  // After a forward: makes records of these blobs. `again`: keeps the records that it finds,
  // because the forward was that of before.
  void Record(const std::vector<BlobBase*>& blobs, bool again);
  // Their content was computed again, as in the forward.
  void Renew(const BlobBase& blob);
  // Before a whole forward.
  void End() { active_ = false; }
  // The next change is followed by a whole forward: nothing is copied for reads in between.
  void ExpectForward(bool yes);
  // Whether the blob has the content that the forward read, in a scope of Restored.
  bool Has(const BlobBase& blob) const;

  // While it exists, blobs that changed have the content that the forward read.
  class Restored {
   public:
    explicit Restored(const LateReads& reads);
    ~Restored();
    Restored(const Restored&) = delete;
    Restored& operator=(const Restored&) = delete;

   private:
    std::vector<std::pair<BlobBase*, std::shared_ptr<BlobBase>>> changed_;
  };

 private:
  struct Read {
    BlobBase* blob;
    SyncedMemory* memory;
    uint64_t version;
    bool copied = false;
    std::shared_ptr<BlobBase> copy = nullptr;  // may stay for the next forward
  };
  void BeforeChange(SyncedMemory* memory, bool view) override;
  static void Copy(Read* read);
  Read* Find(const SyncedMemory* memory);
  const Read* Find(const SyncedMemory* memory) const;

  const Wiring& wiring_;
  std::vector<Read> reads_;  // by memory
  std::atomic<bool> active_{false};
  bool expects_forward_ = false;
};

// A blob that shares the memory of `blob`.
std::shared_ptr<BlobBase> HolderOf(const BlobBase& blob);
// Gives `blob` the memory of `source`; its range stays.
void TakeMemory(BlobBase* blob, const BlobBase& source);
// All blobs of the net, and parameters of its layers, with this memory.
std::vector<BlobBase*> BlobsWith(const Wiring& wiring, const SyncedMemory* memory);

}  // namespace caffe

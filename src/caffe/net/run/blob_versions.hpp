#pragma once

#include <cstdint>
#include <vector>

#include "caffe/memory/memory_watch.hpp"
#include "caffe/net/wiring.hpp"

namespace caffe {

class NetRanges;

// Earlier versions of blobs to which SeparateInPlace gave separate memory. To the user a blob is
// one variable that layers change in place. So where a partial pass begins or ends, and in
// callbacks, values are copied between the last version, which the user sees, and an earlier one.
//
// The first version of an input keeps what the caller wrote: layers in place write later versions.
// The caller writes to the last version, which has the blob's name.
class BlobVersions final : public MemoryWatcher {
 public:
  BlobVersions(const Wiring& wiring, NetRanges* ranges);

  // Before a pass: what the caller wrote to inputs since the last one becomes their first versions,
  // and so do their shapes (ShapeInputs). NoteInputs follows the pass, also if it fails.
  void TakeInputs();
  void NoteInputs();
  void ShapeInputs();
  // After the first version of this input was written.
  void NoteInput(const BlobBase& input);
  // The caller has written a view of the input. Without this, TakeInputs compares the content.
  void NoteWritten(const BlobBase& blob);
  // The first version of an input with several versions; otherwise null.
  BlobBase* FirstVersion(const BlobBase& input);
  // The first versions of the inputs that TakeInputs would change, in Wiring::blobs.
  std::vector<int> WrittenInputs() const;
  // The first and the last version of each input that layers change in place, in Wiring::blobs.
  // Every pass stores them.
  std::vector<std::pair<int, int>> ChangedInputs() const;

  // Before a forward of nodes `first` to `last`: copies the user's blobs to the earlier versions
  // that these nodes read, except the first versions of inputs. A version that has the memory of
  // another blob of the user gets its own as long as the result exists.
  using Taken = std::vector<std::shared_ptr<void>>;
  [[nodiscard]] Taken Take(int first, int last);
  // After it: copies the last written versions to the user's blobs.
  void Publish(int first, int last);
  // The diffs of two versions share memory if the later one was written by a layer taken out of
  // place that is the only reader of the earlier one: layers that work in place overwrite the diff
  // of their top. So a blob's diff is that of its first version.
  void ShareDiffs();
  // Before (`to_version`) and after a partial backward: copies those diffs of these blobs that do
  // not share memory.
  void CopyDiffs(const std::vector<int>& ids, bool to_version);

  // An earlier version that a callback sees as the user's blob.
  struct Shown {
    int version, blob;
    uint64_t stamp;
  };
  // Copies the earlier versions among `ids` to the user's blobs; Stamp records their content.
  std::vector<Shown> Show(const std::vector<int>& ids);
  void Stamp(std::vector<Shown>* shown) const;
  // Copies back the values that changed since Stamp.
  void TakeBack(const std::vector<Shown>& shown);

 private:
  struct Input {
    int first, last;                  // versions
    uint64_t seen = 0;                // the version of the last one's memory after the last pass
    bool written = false;             // since then, by an access that is not a view
    SyncedMemory* watched = nullptr;  // the memory then
    std::vector<char> shown = {};     // its content then, if there is a view
    bool has_shown = false;
  };
  void BeforeChange(SyncedMemory* memory, bool view) override;
  Input* Find(const BlobBase& blob);
  void Copy(int from, int to, bool diff);
  void Separate(int version, Taken* taken);
  bool IsWritten(const Input& input) const;
  void Note(Input* input);
  void KeepShown(Input* input);

  const Wiring& wiring_;
  NetRanges* ranges_;
  std::vector<Input> inputs_;  // that layers change in place
};

}  // namespace caffe

#pragma once

#include <cstdint>
#include <vector>

#include "caffe/net/wiring.hpp"

namespace caffe {

class NetRanges;

// Earlier versions of blobs to which SeparateInPlace gave separate memory. To the user a blob is
// one variable that layers change in place. So where a partial pass begins or ends, and in
// callbacks, values are copied between the last version, which the user sees, and an earlier one.
class BlobVersions {
 public:
  BlobVersions(const Wiring& wiring, NetRanges* ranges) : wiring_(wiring), ranges_(ranges) {}

  // Before a forward of nodes `first` to `last`: copies the user's blobs to the earlier versions
  // that these nodes read.
  void Take(int first, int last);
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
  void Copy(int from, int to, bool diff);

  const Wiring& wiring_;
  NetRanges* ranges_;
};

}  // namespace caffe

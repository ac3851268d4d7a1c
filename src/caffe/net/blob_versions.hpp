#pragma once

#include <cstdint>
#include <vector>

#include "caffe/net/wiring.hpp"

namespace caffe {

class NetRanges;

// Earlier versions of blobs that SeparateInPlace gave memory of their own. To the user a blob is one
// variable that layers change in place: where a pass over a part of the net begins or ends, and in
// callbacks, values are copied between the last version, which the user sees, and an earlier one.
class BlobVersions {
 public:
  BlobVersions(const Wiring& wiring, NetRanges* ranges) : wiring_(wiring), ranges_(ranges) {}

  // Before a forward of nodes `first` to `last`: earlier versions that these nodes read get what the
  // user's blobs hold.
  void Take(int first, int last);
  // After it: the user's blobs get what was written last.
  void Publish(int first, int last);
  // One memory serves for the diffs of two versions where a layer was taken out of place and is the only
  // reader of the earlier version: layers that work in place write over the diff of their top. So a
  // blob's diff is that of its first version.
  void ShareDiffs();
  // Before (`to_version`) and after a backward over a part of the net: copies diffs of these blobs that
  // do not share memory.
  void CopyDiffs(const std::vector<int>& ids, bool to_version);

  // An earlier version that a callback sees as the user's blob.
  struct Shown {
    int version, blob;
    uint64_t stamp;
  };
  // Copies the earlier versions among `ids` into the user's blobs; Stamp notes what these hold.
  std::vector<Shown> Show(const std::vector<int>& ids);
  void Stamp(std::vector<Shown>* shown) const;
  // Copies back what has changed since Stamp.
  void TakeBack(const std::vector<Shown>& shown);

 private:
  void Copy(int from, int to, bool diff);

  const Wiring& wiring_;
  NetRanges* ranges_;
};

}  // namespace caffe

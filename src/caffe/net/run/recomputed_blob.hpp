#pragma once

#include <vector>

#include "lost_blobs.hpp"

namespace caffe {

// Makes a blob that the last forward did not keep: runs the nodes that compute it one by one. Their
// bottoms may be such blobs, too.
class LostBlobs::RecomputedBlob final : public SyncedMemory::Source {
 public:
  RecomputedBlob(LostBlobs* lost, int blob);
  void Make(SyncedMemory*) override;
  // Those that run.
  const std::vector<int>& nodes() const { return nodes_; }
  // Whether the caller has read the blob since the last call, for the second time in a row.
  bool TakeRead();

 private:
  struct Part {
    int node;
    bool whole;  // the step that ends with the node, which has an operator of its own
  };
  LostBlobs* lost_;
  int blob_;
  std::vector<Part> parts_;
  std::vector<int> nodes_;  // of all parts
  bool read_ = false, read_before_ = false;
};

}  // namespace caffe

#include "count_memory.hpp"

#include "caffe/core/error.hpp"

namespace caffe {

std::string MemoryNeeds::ToString() const {
  return Concat(total(), " bytes: ", data, " for blobs, ", diffs, " for their diffs, ", parameters,
                " for parameters, ", parameter_diffs, " for their diffs; workspaces come on top");
}

MemoryNeeds CountMemory(const Wiring& wiring, const Gradients& gradients,
                        const std::set<int>& absent, bool backward) {
  MemoryNeeds needs;
  std::set<const SyncedMemory*> seen;
  for (int id : absent) seen.insert(wiring.blobs[id]->data_memory().get());
  // A diff that has no memory yet will be of its blob's size.
  const auto count = [&seen](BlobBase& blob, bool gradient, int64_t* data, int64_t* diffs) {
    if (seen.insert(blob.data_memory().get()).second) *data += blob.bytes();
    if (gradient && (!blob.has_diff() || seen.insert(blob.diff_memory().get()).second)) {
      *diffs += blob.bytes();
    }
  };
  std::vector<bool> gradient(wiring.blobs.size(), false);
  for (size_t n = 0; n < wiring.nodes.size(); ++n) {
    const Node& node = wiring.nodes[n];
    if (!backward || !gradients.needed(static_cast<int>(n))) continue;
    for (int id : node.top_ids) gradient[id] = true;
    for (size_t b = 0; b < node.bottom_ids.size(); ++b) {
      if (gradients.bottoms(static_cast<int>(n))[b]) gradient[node.bottom_ids[b]] = true;
    }
  }
  for (size_t id = 0; id < wiring.blobs.size(); ++id) {
    count(*wiring.blobs[id], gradient[id], &needs.data, &needs.diffs);
  }
  for (BlobBase* blob : wiring.learnable) {
    count(*blob, backward, &needs.parameters, &needs.parameter_diffs);
  }
  return needs;
}

}  // namespace caffe

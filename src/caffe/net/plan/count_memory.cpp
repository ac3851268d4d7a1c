#include "count_memory.hpp"

#include <algorithm>

#include "caffe/core/error.hpp"
#include "caffe/quant/packed_parameter.hpp"

namespace caffe {

std::string MemoryNeeds::ToString() const {
  return Concat(total(), " bytes: ", data, " for blobs, ", diffs, " for their diffs, ", parameters,
                " for parameters, ", parameter_diffs, " for their diffs, ", derived,
                " for derived weights, ", workspace, " for the workspace");
}

namespace {

// Whether each blob has a diff in a backward pass layer by layer.
std::vector<bool> DiffsByLayer(const Wiring& wiring, const Gradients& gradients) {
  std::vector<bool> has(wiring.blobs.size(), false);
  for (int n = 0; n <= wiring.last_node(); ++n) {
    const Node& node = wiring.nodes[n];
    if (!gradients.needed(n)) continue;
    for (const int id : node.top_ids) has[id] = true;
    for (size_t b = 0; b < node.bottom_ids.size(); ++b) {
      if (gradients.bottoms(n)[b]) has[node.bottom_ids[b]] = true;
    }
  }
  return has;
}

}  // namespace

MemoryNeeds CountMemory(const Wiring& wiring, const Gradients& gradients, const Plan& plan,
                        const ArrayBlobs& blobs, const ActivationArena* arena,
                        const WorkMemory& works, const StepWorkspaces& workspaces, bool backward) {
  MemoryNeeds needs;
  needs.workspace = workspaces.shared;
  for (const int64_t bytes : workspaces.bytes) needs.workspace = std::max(needs.workspace, bytes);
  needs.derived = works.derived;
  std::set<const SyncedMemory*> seen;
  for (const std::vector<int>& unwritten : UnwrittenBlobs(wiring, plan)) {
    for (int id : unwritten) seen.insert(wiring.blobs[id]->data_memory().get());
  }
  std::vector<bool> gradient(wiring.blobs.size(), false);  // blobs with a diff in C order
  if (!arena) {
    if (backward) gradient = DiffsByLayer(wiring, gradients);
    for (int i = 0; i < plan.arrays.size(); ++i) {
      needs.data += plan.arrays[i].in_c_order() ? 0 : blobs[i]->bytes();
    }
  } else {
    ActivationArena planned(wiring, arena->arrays());  // the arena itself changes only in a forward
    if (planned.arrays().training) {
      planned.Update();
    } else {
      StepWorkspaces known = workspaces;
      // As in the last forward, even if the net's workspace has grown since.
      if (arena->workspaces().bytes == known.bytes) known.shared = arena->workspaces().shared;
      planned.Update(known);
      needs.workspace =
          planned.workspace_bytes() + std::max(planned.shared_workspace(), workspaces.shared);
    }
    needs.data += planned.bytes() - planned.diff_bytes() - planned.workspace_bytes();
    needs.diffs += planned.diff_bytes();
    for (int i = 0; i < planned.arrays().arrays.size(); ++i) {
      const SyncedMemory& memory = *planned.Memory(i);
      const Array& one = planned.arrays().arrays[i];
      const bool diff = one.kind == Array::Kind::kDiff;
      if (planned.Holds(i)) {
        seen.insert(&memory);
      } else if (!planned.Uses(i)) {
        continue;
      } else if (!one.in_c_order()) {
        if (!seen.insert(&memory).second) continue;
        (one.scratch || diff ? needs.diffs : needs.data) += memory.bytes();
      } else if (diff) {
        gradient[one.blob] = true;
      }
    }
  }
  // A diff that has no memory yet will be of its blob's size.
  const auto count = [&seen](BlobBase& blob, bool gradient, int64_t* data, int64_t* diffs) {
    if (seen.insert(blob.data_memory().get()).second) *data += blob.bytes();
    if (gradient && (!blob.has_diff() || seen.insert(blob.diff_memory().get()).second)) {
      *diffs += blob.bytes();
    }
  };
  for (size_t id = 0; id < wiring.blobs.size(); ++id) {
    count(*wiring.blobs[id], gradient[id], &needs.data, &needs.diffs);
  }
  for (BlobBase* blob : wiring.learnable) {
    int64_t none = 0;
    // As the file stores it, until it is read.
    const SyncedMemory& memory = *blob->data_memory();
    const auto packed = memory.stored() ? nullptr : PackedParameter::Of(*blob);
    if (packed && !packed->mapped() && !works.absent.count(blob) && !seen.count(&memory)) {
      needs.parameters += packed->bytes();
    }
    const bool elsewhere = packed || memory.adopted() || works.absent.count(blob);
    count(*blob, backward, elsewhere ? &none : &needs.parameters, &needs.parameter_diffs);
  }
  return needs;
}

}  // namespace caffe

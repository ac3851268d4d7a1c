#pragma once

#include "caffe/layer/work.hpp"
#include "caffe/net/build/gradients.hpp"
#include "caffe/net/memory_needs.hpp"
#include "caffe/net/plan.hpp"
#include "caffe/net/run/activation_arena.hpp"

namespace caffe {

// The memory that a net needs, from shapes alone. `arena`: that of whole passes, or null.
// `workspaces`: those of the forward. `backward`: diffs count, too. Allocates nothing.
MemoryNeeds CountMemory(const Wiring& wiring, const Gradients& gradients, const Plan& plan,
                        const ArrayBlobs& blobs, const ActivationArena* arena,
                        const WorkMemory& works, const StepWorkspaces& workspaces, bool backward);

}  // namespace caffe

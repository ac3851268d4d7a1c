#pragma once

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "array_blobs.hpp"
#include "caffe/net/build/gradients.hpp"
#include "caffe/net/memory_plan.hpp"
#include "caffe/net/plan.hpp"
#include "caffe/net/wiring.hpp"

namespace caffe {

// Consecutive layers with `recompute: true`. Their tops are not kept for the backward pass; these
// nodes run again before the first node whose backward reads what they compute.
struct RecomputedSegment {
  // That run again, in the order of the net; the last node of a step that trains stands for it.
  std::vector<int> nodes;
  int before = -1;  // the node before whose backward they run; -1: nothing of them is read
  int step = -1;    // the first of their steps in PassArrays::steps, one for each node
};

// A bottom of a node that joins blobs: its array can be a part of that of the node's top, so that
// the node copies nothing.
struct ArrayPart {
  int array;
  Part part;
  int step;  // of the node
  // In kNHWC; its step writes it so in any case. Otherwise it is a part if it has no gaps.
  bool channels;
};

// The arrays of a net's passes, and the steps that use them: the steps of a plan's forward,
// followed for training by those of the backward pass. From this ActivationArena finds when each
// array is needed.
struct PassArrays {
  // Those of the plan; in training, the diffs of all of them; then those of layers.
  Arrays arrays;
  ArrayBlobs blobs;  // of the arrays that are not a layer's
  std::vector<MemoryPlan::Step> steps;
  int forward_steps = 0;
  // For each forward step: whether its tops have the memory of bottoms.
  std::vector<bool> writes_nothing;
  bool training = false;                    // a backward pass follows
  std::set<int> kept;                       // arrays with memory of their own
  std::vector<RecomputedSegment> segments;  // by `step`
  std::vector<ArrayPart> parts;             // of a forward in phase TEST
  // Diffs (bottom, top) of layers whose Backward gives the bottom the memory of the top's diff, as
  // Flatten does: arrays, in the order of the backward pass.
  std::vector<std::pair<int, int>> joined;
  // The nodes of the backward pass, in its order; the last node of a step that trains stands for
  // it.
  std::vector<int> backward;

  // The arrays of a whole forward in phase TEST. `kept`: blobs that each forward must store.
  static PassArrays Forward(const Wiring& wiring, const std::vector<PlanNode>& nodes,
                            const Plan& plan, ArrayBlobs blobs, const std::set<int>& kept);
  // The arrays of a whole forward and backward.
  static PassArrays Training(const Wiring& wiring, const std::vector<PlanNode>& nodes,
                             const Plan& plan, ArrayBlobs blobs, const Gradients& gradients,
                             const std::set<int>& kept);
};

}  // namespace caffe

#pragma once

#include <functional>
#include <vector>

namespace caffe {

// The work that a solver adds to the passes of an iteration. Each function enqueues the same work
// in every iteration, and does nothing else, so that it is recorded with the passes.
struct TrainingTail {
  // Sums gradients over the replicas of the net.
  struct Reduction {
    std::vector<int> parameters;  // in Net::learnable_params
    std::function<void()> enqueue;
  };
  // In this order. Each runs on another stream than the passes, once its gradients are complete,
  // while the backward pass of other layers goes on.
  std::vector<Reduction> reductions;
  // Run after the passes and all reductions.
  std::vector<std::function<void()>> entries;
};

// How far an iteration goes.
enum class IterationEnd {
  kBackward,    // a forward and a backward
  kReductions,  // and the reductions of the tail
  kTail,        // and its entries
};

}  // namespace caffe

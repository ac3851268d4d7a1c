#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "caffe/memory/device_buffer.hpp"
#include "caffe/net/memory_plan.hpp"
#include "caffe/net/plan.hpp"
#include "caffe/net/wiring.hpp"

namespace caffe {

// One allocation for the activations of a whole forward pass (reduced_memory_inference): blobs that
// are not needed at the same time share bytes. Inputs, outputs, kept blobs and those with a view
// have separate memory.
class ActivationArena {
 public:
  // The plan must have been made from `nodes`.
  ActivationArena(const Wiring& wiring, const std::vector<PlanNode>& nodes, const Plan& plan,
                  const std::set<int>& kept);
  // Before a forward, when shapes are known: gives the blobs their slices; their content is lost.
  void Place(Device* device);
  // One blob of each memory whose bytes another blob reuses before the end of the forward.
  const std::vector<int>& lost() const { return lost_; }
  // Bytes of the arena for the current shapes, and its blobs.
  int64_t Bytes();
  std::vector<int> Blobs();

 private:
  std::vector<int64_t> Sizes() const;
  // Makes the plan for the current shapes.
  void MakePlan();

  const Wiring& wiring_;
  // For each blob: the blob whose memory it shares, or itself. The plan uses that blob for both.
  std::vector<int> root_;
  std::set<int> kept_;  // roots
  std::vector<MemoryPlan::Step> steps_;
  std::vector<int64_t> sizes_;  // the sizes for which plan_ was made
  MemoryPlan plan_;
  std::vector<int> lost_;
  std::shared_ptr<DeviceBuffer> buffer_;
};

}  // namespace caffe

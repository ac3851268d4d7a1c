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

// One allocation for the activations of a whole forward pass (reduced_memory_inference): blobs that are
// not needed at the same time share bytes. Inputs, outputs, kept blobs and those with a view have
// memory of their own.
class ActivationArena {
 public:
  // `nodes` are those that the plan was made from.
  ActivationArena(const Wiring& wiring, const std::vector<PlanNode>& nodes, const Plan& plan,
                  const std::set<int>& kept);
  // Before a forward, when shapes are known: the blobs get their slices; what they held is lost.
  void Place(Device* device);
  // One blob of each memory whose bytes another blob has taken before the end of the forward.
  const std::vector<int>& lost() const { return lost_; }
  // Bytes of the arena for the present shapes, and the blobs that lie in it.
  int64_t Bytes();
  std::vector<int> Blobs();

 private:
  std::vector<int64_t> Sizes() const;
  // Plans for the present shapes.
  void MakePlan();

  const Wiring& wiring_;
  // Of each blob: the blob whose memory it shares, or itself. That blob stands for both in the plan.
  std::vector<int> root_;
  std::set<int> kept_;  // roots
  std::vector<MemoryPlan::Step> steps_;
  std::vector<int64_t> sizes_;  // what plan_ was made for
  MemoryPlan plan_;
  std::vector<int> lost_;
  std::shared_ptr<DeviceBuffer> buffer_;
};

}  // namespace caffe

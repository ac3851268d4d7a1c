#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "caffe/core/layout.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/library/epilogue.hpp"

namespace caffe {

// The computation of a step besides its first layer: the layers after it, as maps folded into the
// layer's weights and as stages of its epilogue.
struct WorkRequest {
  std::vector<Affine> maps;
  std::vector<Epilogue::Stage> stages;
  BlobBase* residual = nullptr;      // of a ResidualSum
  const BlobBase* slopes = nullptr;  // of PReLU
  // For quantized types, during MakeWork: the ranges of the last layer, and of the layer of a
  // ResidualSum, which reads the residual as bottom `residual_bottom`.
  const NodeRanges *last = nullptr, *sum = nullptr;
  int residual_bottom = 0;
  // Computed after the layer itself, before the stages. The work then has a backward pass.
  std::optional<ChannelScale> scale;
  // The layouts of bottoms and tops; the residual has that of the tops, and diffs have those of
  // their data.
  LayoutPair layouts;
  // Not empty: the work has a backward pass, which computes the gradients of these bottoms.
  std::vector<bool> gradients;

  // No later layers.
  bool empty() const { return maps.empty() && stages.empty() && !scale; }
};

// The memory that works hold on their device, besides blobs and workspace, after Prepare.
struct WorkMemory {
  // Adds these bytes of derived weights, once for all works that share them.
  void Add(const std::shared_ptr<const void>& owner, int64_t bytes) {
    if (bytes > 0 && counted.insert(owner).second) derived += bytes;
  }

  int64_t derived = 0;               // bytes of derived weights
  std::set<const BlobBase*> absent;  // parameters that the device need not hold
  // The owners of the bytes in `derived`. They live on, so that no others get their addresses.
  std::set<std::shared_ptr<const void>> counted;
};

// One way of computing a layer. A step of a plan owns it; it is immutable. When shapes, ranges,
// parameters or the device change, another one is made.
class Work {
 public:
  virtual ~Work() = default;
  // Facts and costs of the work. They are known after Prepare. The library that computes it; empty
  // for the layer's own kernels.
  virtual const char* library() const { return ""; }
  // Bytes that Run needs in the workspace.
  virtual int64_t workspace_bytes() const { return 0; }
  // Whether Run takes these from the net's workspace, and not from what it is given.
  virtual bool uses_net_workspace() const { return false; }
  // Adds what Prepare will allocate; may be called before it.
  virtual void CountMemory(WorkMemory* memory) const {}
  // Bytes of parameters that Run reads, in the form in which it reads them.
  virtual int64_t parameter_bytes() const { return 0; }
  // Additions and multiplications of Run; no value if the formula is not known.
  virtual std::optional<int64_t> operations() const { return std::nullopt; }

  // Brings derived weights up to date; called before each forward.
  virtual void Prepare() {}
  // Enqueues the computation; allocates nothing.
  virtual void Run(DevicePtr workspace) = 0;
  // Computes the tops of the last Run again, without counting the pass in statistics.
  virtual void Repeat(DevicePtr workspace) { Run(workspace); }
  // Backward of all layers of the step: adds to the diffs of their parameters and writes those of
  // the bottoms. Throws if the work was not requested with a backward pass.
  virtual void Backward(DevicePtr workspace);
};

// The layer's own PrepareParameters, Forward and Backward. It uses the layer's workspace.
class LayerWork : public Work {
 public:
  LayerWork(LayerBase* layer, const BlobVec& bottom, const BlobVec& top,
            std::vector<bool> gradients = {})
      : layer_(layer), bottom_(bottom), top_(top), gradients_(std::move(gradients)) {}
  bool uses_net_workspace() const override { return true; }
  int64_t parameter_bytes() const override;  // those of blobs()
  void CountMemory(WorkMemory* memory) const override;
  void Prepare() override;
  void Run(DevicePtr workspace) override;
  void Repeat(DevicePtr workspace) override;
  void Backward(DevicePtr workspace) override;

 private:
  LayerBase* layer_;
  BlobVec bottom_, top_;
  std::vector<bool> gradients_;  // WorkRequest::gradients
};

}  // namespace caffe

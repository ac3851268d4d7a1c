#pragma once

#include "caffe/layer/has_experts.hpp"
#include "caffe/layer/sub_net.hpp"
#include "caffe/layer/usage_report.hpp"

namespace caffe {

class LayerRegistry;

// A mixture of experts: y[n] = sum over the selected experts e of w[n, e] E_e(x[n]). The gating net
// computes a softmax p [N, E]; MOERoute selects K experts for each item and computes w. Docs:
// docs/mixture_of_experts.md.
//
// bottoms: read by the gating net, the experts or both (map_bottom). The tops of a nested net's Input
// layers, in their order, stand for the bottoms that the net reads.
// tops: the outputs of an expert, in alphabetical order, as in BVLC's nets; then observed and expected
// usage [N, E]; then the blobs of the gating net that gate_top names. Only the first are necessary.
// blobs: those of the gating net, then expert by expert; with balance_rate, then the bias.
// moe_param: gating_net, expert_net (repeated), expert_instances (1 each), select_experts (all),
//   map_bottom (both), full_forward (false), gate_top, usage_loss_weight, load_balance_loss_weight,
//   z_loss_weight, balance_rate, capacity_factor, normalize_weights (true).
// Types: any bottoms. A nested net computes in its data_type; float if it has none. The gate is float,
// or double if bottoms or tops are.
class MOELayer final : public CompositeLayer, public UsageReport, public HasExperts {
 public:
  using CompositeLayer::CompositeLayer;
  SubNet Expand(const BlobVec& bottom, int tops) override;
  void Connect(const std::vector<std::shared_ptr<LayerBase>>& nested) override;
  // Of this layer, and of MOE layers in its nets.
  std::vector<ExpertUsage> TakeUsage() override;

  std::vector<ExpertBlob> ExpertBlobs() const override;

 private:
  std::vector<std::shared_ptr<LayerBase>> nested_;
};

}  // namespace caffe

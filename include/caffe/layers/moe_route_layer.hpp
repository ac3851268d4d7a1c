#pragma once

#include <memory>

#include "caffe/layer/layer.hpp"
#include "caffe/layer/usage_report.hpp"

namespace caffe {

class LayerRegistry;

// One of the layers that compute a MOE layer: selects K = select_experts experts for each item, and
// the rows in which they compute it. A pair is an item and one of its experts, in falling order of
// probability; of equal probabilities the earlier expert is first.
//   weights[n, k] = p[n, e(n, k)] / sum over l of p[n, e(n, l)]        (thesis eq. 1.9, 1.10)
// or p[n, e(n, k)] without normalize_weights.
// bottom 0: the probabilities p of the gate, N items by E experts.
// top 0: observed usage [N, E]: the share of items that selected an expert, the same in each row;
//        it has this meaning in both phases.
// top 1: expected usage [N, E]: K / E.
// top 2: weights [N, K].
// top 3: slots [N, K], always float: the row of each pair; -1 if its expert was full.
// top 4: rows, always float: the pair of each row, n * K + k; -1 for a row without one.
// top 5: offsets [E + 1], always float: the first row of each expert, then the number of rows in use.
// There are N K rows, ordered by expert and by item. With full_forward there are E N: every expert
// computes all items, and row e N + n belongs to expert e and item n.
//
// Gradients: dE/dp through the weights, as of a softmax over the selected experts, or as they are
// without normalize_weights; and through the observed usage u as if u = K times the mean of p. The latter reaches unselected experts, too.
//
// moe_param: select_experts (E), full_forward, normalize_weights (true), and
//   balance_rate b: p + bias decides the selection. Each forward in TRAIN adds b to the bias of
//     experts with less than the mean usage, and subtracts it from those with more. The bias is
//     blobs()[0], which a solver must not change.
//   capacity_factor c: in TRAIN an expert computes ceil(c N K / E) items, those with the lowest
//     indices. Other pairs get the weight 0; the weights of the item's other experts stay.
// Types: float kinds.
class MOERoute : public LayerBase, public UsageReport {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void PrepareParameters() override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void RepeatForward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;
  std::vector<ExpertUsage> TakeUsage() override;

 private:
  bool balances() const { return !blobs_.empty(); }
  // Whether one launch computes all.
  bool HasFewPairs() const;
  // Adds the usage to `used`, and changes `bias` by `rate`.
  void Route(const BlobVec& bottom, const BlobVec& top, double rate, BlobBase* bias,
             BlobBase* used);

  int64_t items_ = 0, experts_ = 0, select_ = 0, capacity_ = 0, length_ = 0, blocks_ = 0;
  bool all_ = false, normalize_ = true;
  // bias_: that of the last forward. used_: sums of shares, and the number of forwards. unread_: the
  // same of repeated forwards, which do not count.
  std::shared_ptr<BlobBase> bias_, usage_sums_, chosen_, counts_, totals_, used_, unread_;
  std::unique_ptr<Kernel> choose_, count_, total_, offset_, place_, usage_, sum_usage_, backward_;
  std::unique_ptr<Kernel> few_;  // null on the CPU
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class MOERouteLayer final : public Layer<Dtype, MItype, MOtype, MOERoute> {
  using Layer<Dtype, MItype, MOtype, MOERoute>::Layer;
};

}  // namespace caffe

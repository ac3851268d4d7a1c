#pragma once

#include "caffe/layer/class_scores.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/score_report.hpp"
#include "caffe/layer/term_sum.hpp"

namespace caffe {

class LayerRegistry;

// The share of items whose label is among the top_k largest scores. A score equal to the label's
// score is ranked above it, and NaN above every number; an item whose label has the score NaN is a
// miss. 0 if no item is counted.
// bottom 0: scores [outer…, C, inner…]; bottom 1: outer * inner labels, always float, integers in
// [0, C) or ignore_label; others are an error (CheckData). top 0: no axes; top 1 (optional): the same
// per class, [C], 0 for a class without items. No gradient.
// accuracy_param: top_k (1), axis (1), ignore_label.
// Types: float kinds, quant8 and quant16: codes have the order of their values. Tops are always
// float.
class Accuracy : public LayerBase, public HasClassScores, public ScoreReport {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;
  void CheckData() override;
  std::optional<ClassScores> class_scores() const override;
  bool TakeLostScores() override;

 private:
  int64_t channels_ = 0, inner_ = 0;
  TermSum sum_;
  std::shared_ptr<BlobBase> lost_;  // of each item: 1 if a score was NaN or infinity
  std::unique_ptr<Kernel> hits_, per_class_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class AccuracyLayer final : public Layer<Dtype, MItype, MOtype, Accuracy> {
  using Layer<Dtype, MItype, MOtype, Accuracy>::Layer;
};

}  // namespace caffe

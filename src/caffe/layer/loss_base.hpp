#pragma once

#include <optional>

#include "caffe/layer/class_labels.hpp"
#include "caffe/layer/class_scores.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/term_sum.hpp"

namespace caffe {

// The common part of losses: bottom 0 and bottom 1 have the same number of items, and top 0 has no
// axes and stays on the device. The gradient is multiplied by the diff of top 0, which is read on
// the device, so that a loss weight and a loss scale are factors in it.
class LossBase : public LayerBase, public HasClassScores {
 public:
  using LayerBase::LayerBase;
  // The traits of a loss of bottom 0 whose bottom 1 has labels or targets, which are always float
  // and have no gradient.
  static LayerTraits Traits();
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void CheckData() override;
  LayerFacts Facts() const override;
  // Those of SetLabels.
  std::optional<ClassScores> class_scores() const override;

 protected:
  // The divisor for TermSum::Divide by loss_param.normalization: FULL outer * inner, VALID 0,
  // BATCH_SIZE outer, NONE 1, PRE_FIXED pre_fixed_normalizer. `otherwise` (a
  // LossParameter::NormalizationMode) is used if neither it nor its older form, normalize, is set.
  // TermSum replaces a divisor below 1 by 1, as BVLC's Caffe does.
  double Divisor(int64_t outer, int64_t inner, int otherwise) const;
  // The divisor of losses that BVLC's Caffe always divides by the number of items: at least 1;
  // under PRE_FIXED, which BVLC's Caffe does not have, pre_fixed_normalizer.
  double ItemDivisor(int64_t items) const;
  // For such losses, in LayerSetUp: warns about fields of loss_param without an effect.
  void WarnOfUnusedNormalization() const;
  // For Reshape: throws unless bottoms 0 and 1 have the same number of elements.
  void CheckEqualCounts(const BlobVec& bottom) const;
  // The number of elements per term if all `count` elements have equal weights: about the number of
  // terms.
  static int64_t TermLength(int64_t count);
  // The same for kernels whose work groups compute a term each.
  static int64_t GroupTermLength(int64_t count);
  // For losses with class labels, in Reshape. Their kernels mark terms with class_of and
  // class_weight (kernels/types/i32.h).
  void SetLabels(int64_t classes, int64_t inner, bool ignores);
  // The end of a forward: top = sum of the terms / divisor. Throws on the CPU if a term is invalid.
  void Finish(double divisor, BlobBase* top);

  TermSum sum_;

 private:
  std::optional<ClassLabels> labels_;
};

// The common part of losses of the scores of classes, all axes of bottom 0 after the first, with
// one label for each item. BVLC's Caffe always divides them by the number of items.
class LabelLoss : public LossBase {
 public:
  using LossBase::LossBase;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;

 protected:
  // For LayerSetUp: the kernels <kernel>_forward and <kernel>_backward of loss/<kernel>, and their
  // argument behind the number of classes.
  void SetKernels(const std::string& kernel, KernelArgument argument);

 private:
  int64_t classes_ = 0;
  KernelArgument argument_ = 0;
  std::unique_ptr<Kernel> forward_, backward_;
};

}  // namespace caffe

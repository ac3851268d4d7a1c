#pragma once

#include <memory>

#include "caffe/layer/channel_norm.hpp"
#include "caffe/layer/channel_sums.hpp"
#include "caffe/layer/input_copy.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/memory/derived.hpp"

namespace caffe {

class LayerRegistry;

// y = slope v + bias with v = (x - mean) / sqrt(variance + eps), for each channel (axis 1): BatchNorm
// and Scale in one layer, in two forms. Variances are biased.
// - PSPNet. blobs: slope, bias, mean, variance. In TRAIN mean and variance are those of the batch,
//   and blobs 2 and 3 become momentum blob + (1 - momentum) that of the batch. In TEST, and where
//   `frozen`, they are blobs 2 and 3. A frozen layer learns nothing.
// - SegNet, where scale_filler, shift_filler or bn_mode is given. blobs: slope, bias. With LEARN mean
//   and variance are those of the batch, in both phases; eps is 1e-9. With INFERENCE the two blobs
//   include them: y = slope x + bias.
//   dE/dslope += sum of v dE/dy, dE/dbias += sum of dE/dy
//   dE/dx = slope (dE/dy - mean of dE/dy - v times mean of v dE/dy) / sqrt(variance + eps) with the
//   statistics of the batch, else slope dE/dy / sqrt(variance + eps)
// bottom 0, top 0: at least two axes, the same shape. In place allowed: a copy of the bottom is kept
// where the gradient needs it. top 1 and 2 (optional, LEARN): mean and variance [1, C, 1, 1], as
// float, without a gradient.
// blobs: each [1, C, 1, 1]. lr_mult and decay_mult of blobs 2 and 3, and of all where `frozen`, are 0.
// bn_param: slope_filler (constant 1), bias_filler (constant 0), momentum (0.9), eps (1e-5), frozen
//   (false); or scale_filler (constant 1), shift_filler (constant 0), bn_mode (LEARN).
// Types: float kinds; blobs and statistics are float, double for double.
class BN : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void PrepareParameters() override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void RepeatForward(const BlobVec& bottom, const BlobVec& top) override;
  LayerArrays Arrays(const BlobVec& bottom, const BlobVec& top) override {
    return {input_.Arrays(*bottom[0], *top[0], KeepsInput()), {}};
  }
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  // Whether Backward reads the bottom's data.
  bool KeepsInput() const { return need_backward() && GradientNeedsInput(); }
  // The source of mean and variance.
  enum class Statistics { kBatch, kBlobs, kNone };
  void ReadParameters(const BlobVec& top);
  void MakeBlobs();
  void MakeKernels(const BlobVec& top);
  void ComputeBatchStatistics(const BlobBase& x);
  bool GradientNeedsInput() const {
    return statistics_ == Statistics::kBatch || (!frozen_ && param_propagate_down(0));
  }
  const BlobBase& Mean() const { return statistics_ == Statistics::kBlobs ? *blobs_[2] : *mean_; }

  Statistics statistics_ = Statistics::kBatch;
  bool segnet_ = false, frozen_ = false;
  double momentum_ = 0.9, eps_ = 1e-5;
  int64_t outer_ = 0, channels_ = 0, inner_ = 0;
  InputCopy input_;
  ChannelSums forward_sums_;
  ChannelNorm norm_;
  // Of the last forward: mean, variance and 1 / sqrt(variance + eps).
  std::shared_ptr<BlobBase> mean_, variance_, inverse_;
  DerivedBy inverse_of_blobs_;  // inverse_, where the variances are a blob
  std::unique_ptr<Kernel> mean_kernel_, square_parts_, variance_kernel_, average_, invert_;
  std::unique_ptr<Kernel> to_float_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class BNLayer final : public Layer<Dtype, MItype, MOtype, BN> {
  using Layer<Dtype, MItype, MOtype, BN>::Layer;
};

}  // namespace caffe

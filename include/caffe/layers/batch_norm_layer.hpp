#pragma once

#include <cstdint>
#include <memory>

#include "caffe/layer/channel_sums.hpp"
#include "caffe/layer/code_affine.hpp"
#include "caffe/layer/input_copy.hpp"
#include "caffe/memory/derived.hpp"

namespace caffe {

class LayerRegistry;

// y = (x - mean) / sqrt(variance + eps), for each channel (axis 1), without scale and bias, which a
// Scale layer adds. With m elements per channel, the mean and the (biased) variance are
// - those of the batch. Each forward adds to the blobs, lambda = moving_average_fraction:
//     blob 0 = lambda blob 0 + mean, blob 1 = lambda blob 1 + variance m / (m - 1) (1 for m = 1),
//     blob 2 = lambda blob 2 + 1
//   dE/dx = (dE/dy - mean of dE/dy - y times mean of y dE/dy) / sqrt(variance + eps)
// - with use_global_stats blob 0 / blob 2 and blob 1 / blob 2 (0 if blob 2 is 0).
//   dE/dx = dE/dy / sqrt(variance + eps)
// bottom 0, top 0: at least two axes, the same shape. In place allowed: a copy of the bottom is kept
// for the gradient, but with global statistics and no ReLU.
// blobs: [channels], [channels], [1]. A solver does not change them: their lr_mult is 0; another
// value in `param` is an error.
// batch_norm_param: use_global_stats (in phase TRAIN false, in TEST true), moving_average_fraction
//   (0.999), eps (1e-5), fused_relu (false): y = max(y, 0).
// Types: float kinds; with global statistics, quant8 and quant16 forward (CodeAffine), where y has a
// range of its own. Blobs and statistics are float, double for double.
class BatchNorm : public CodedLayer {
 public:
  using CodedLayer::CodedLayer;
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
  std::unique_ptr<Work> MakeWork(const WorkRequest& request, const BlobVec& bottom,
                                 const BlobVec& top) override;
  LayerFacts Facts() const override;

 private:
  class TrainingWork;
  // Whether Backward reads the bottom's data.
  bool KeepsInput() const {
    return need_backward() && types().compute.is_float() && GradientNeedsInput();
  }
  void ComputeBatchStatistics(const BlobBase& x, ChannelSums* sums);
  bool GradientNeedsInput() const { return !global_ || fused_relu_; }

  bool global_ = false, fused_relu_ = false;
  double fraction_ = 0.999, eps_ = 1e-5;
  int64_t outer_ = 0, channels_ = 0, inner_ = 0;
  InputCopy input_;
  ChannelSums forward_sums_, backward_sums_;
  // Of the last forward: mean and 1 / sqrt(variance + eps); of the last backward: its sums.
  std::shared_ptr<BlobBase> mean_, inverse_, gradient_sums_;
  // The scale and the shift of each channel, with global statistics.
  CodeAffine::Function GlobalAffine() const;

  CodeAffine codes_;             // of quantized types
  DerivedBy global_statistics_;  // mean_ and inverse_, with global statistics
  std::unique_ptr<Kernel> mean_kernel_, square_parts_, variance_, global_kernel_;
  std::unique_ptr<Kernel> normalize_rows_, normalize_columns_;
  std::unique_ptr<Kernel> gradient_parts_, gradient_rows_, gradient_columns_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class BatchNormLayer final : public Layer<Dtype, MItype, MOtype, BatchNorm> {
  using Layer<Dtype, MItype, MOtype, BatchNorm>::Layer;
};

}  // namespace caffe

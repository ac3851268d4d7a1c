#pragma once

#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;
class ProgramBuilder;

// Local response normalisation, n = local_size:
//   y = x / scale^beta
//   ACROSS_CHANNELS: scale = k + alpha / n * sum of x^2 over n channels around x
//   WITHIN_CHANNEL: scale = 1 + alpha / n^2 * sum of x^2 over the n x n elements around x
//   dE/dx = dE/dy scale^-beta - 2 alpha beta / n (or n^2) x * sum of dE/dy y / scale over a window
// Windows that reach beyond an edge are padded with 0, but divided by their full size.
// WITHIN_CHANNEL ignores k, as in BVLC's Caffe.
// bottom 0, top 0: [N, C, H, W]. Not in place: the gradient needs x.
// lrn_param: local_size (5, odd), alpha (1), beta (0.75), norm_region (ACROSS_CHANNELS), k (1).
// Types: float kinds; forward also quantized ones, ACROSS_CHANNELS. Codes are those of the float
// layer between two conversions, in one launch.
class LRN : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  LayerArrays Arrays(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;

  LayerFacts Facts() const override;
  std::unique_ptr<Work> MakeWork(const WorkRequest& request, const BlobVec& bottom,
                                 const BlobVec& top) override;

 private:
  class ChannelsLastWork;
  bool InCodes() const;
  // Of codes, the kernels compute in float.
  TypeTriple KernelTypes() const;
  // What of the window lies in an image, so that a window of 2^31 elements takes no longer.
  int64_t Reach() const;
  void FoldWindow(ProgramBuilder* builder) const;
  // The first eight arguments of the kernels that compute scales.
  KernelArguments Arguments() const;
  // The last arguments of the forward kernels.
  void AppendBlobs(const BlobBase* bottom, BlobBase* top, KernelArguments* arguments) const;
  void ReserveParts(const Shape& shape);

  bool across_ = true;
  int64_t reach_ = 0, quarters_ = 0;  // see kernels/epilogue/lrn_power.h
  double factor_ = 0, beta_ = 0, k_ = 1;
  int64_t planes_ = 0, extent_ = 0, inner_ = 0;  // extent: channels across, rows within
  LaunchRange range_{0};                         // elements; rows on the CPU
  std::unique_ptr<Kernel> forward_, parts_, backward_;
  // Passed from the first kernel of the backward pass to the second.
  std::shared_ptr<BlobBase> power_, ratio_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class LRNLayer final : public Layer<Dtype, MItype, MOtype, LRN> {
  using Layer<Dtype, MItype, MOtype, LRN>::Layer;
};

}  // namespace caffe

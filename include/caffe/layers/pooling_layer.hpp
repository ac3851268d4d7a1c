#pragma once

#include "caffe/layer/forward_counter.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/library/pooling.hpp"
#include "caffe/memory/derived.hpp"

namespace caffe {

class LayerRegistry;

// The largest value, the mean, or a random value, of windows of each channel.
//   MAX: the first largest value; it gets the gradient.
//   AVE: the sum over the area of the window; the area includes padding, but nothing beyond it.
//   STOCHASTIC: in TRAIN one value, drawn with a probability proportional to it (values >= 0);
//     in TEST the sum of squares over the sum, without a gradient.
//   output extent = (input + 2 pad - kernel) / stride + 1, rounded up, or down with FLOOR; with
//   padding the last window must begin inside the image or its leading padding. Windows are cut at
//   the image, also one that is larger: 3 x 3 with stride 2 makes 1 x 1 of 2 x 2.
// bottom 0: [N, C, H, W]; top 0: [N, C, h, w]; top 1 (optional, MAX): the index h W + w of each
// largest value, as float.
// pooling_param: pool (MAX), kernel_size or kernel_h and kernel_w, stride (1), pad (0), likewise;
//   global_pooling (false): the window is the image; round_mode (CEIL), which forks call ceil_mode
//   (true).
// Types: float kinds; quant8 and quant16 forward, MAX with its range carried through, AVE with one
// requantization of the sum. STOCHASTIC float kinds only.
class Pooling : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void RepeatForward(const BlobVec& bottom, const BlobVec& top) override { Run(bottom, top); }
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerArrays Arrays(const BlobVec& bottom, const BlobVec& top) override;
  LayerFacts Facts() const override;
  void PrepareParameters() override;
  std::unique_ptr<Work> MakeWork(const WorkRequest& request, const BlobVec& bottom,
                                 const BlobVec& top) override;
  // STOCHASTIC in TRAIN: the count of forwards.
  std::vector<uint64_t> RunState() const override;
  void SetRunState(uint64_t seed, const std::vector<uint64_t>& values) override;

 private:
  class OwnWork;
  class ChannelsLastWork;
  using Axis = PoolDescriptor::Axis;
  // Random numbers decide.
  bool Draws() const;
  void Run(const BlobVec& bottom, const BlobVec& top);
  // Of means of codes.
  QuantArguments Factors() const;
  void ReadWindow();
  PoolDescriptor Descriptor(int64_t planes) const;
  std::unique_ptr<PoolOp> MakeOp(const PoolDescriptor& descriptor) const;
  void MakeOperation(int64_t planes);
  void MakeFactors();
  int64_t OutputExtent(const Axis& axis) const;
  // The place that each output came from; MAX, and STOCHASTIC in TRAIN.
  BlobBase& Mask(const BlobVec& top) { return top.size() > 1 ? *top[1] : *mask_; }

  int pool_ = 0;
  bool global_ = false, round_up_ = true, has_mask_top_ = false;
  Axis height_, width_;
  std::shared_ptr<BlobBase> mask_;
  ForwardCounter counter_;
  std::unique_ptr<PoolOp> operation_;
  // AVE of codes: multipliers, then shifts, for windows of each area.
  std::shared_ptr<BlobBase> factors_;
  DerivedBy factors_of_areas_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class PoolingLayer final : public Layer<Dtype, MItype, MOtype, Pooling> {
  using Layer<Dtype, MItype, MOtype, Pooling>::Layer;
};

}  // namespace caffe

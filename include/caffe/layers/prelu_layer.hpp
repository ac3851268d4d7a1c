#pragma once

#include "caffe/layer/channel_sums.hpp"
#include "caffe/layer/code_affine.hpp"
#include "caffe/layer/input_copy.hpp"

namespace caffe {

class LayerRegistry;

// y = x if x > 0, else a x, with a learned slope a per channel (axis 1), or one for all.
//   dE/dx = dE/dy if x > 0, else a dE/dy;  dE/da += the sum over the channel of x dE/dy where x <= 0
// bottom 0, top 0: at least two axes, the same shape. In place allowed: a copy of the bottom is kept
// for the gradients.
// blobs: slopes [channels], or one value without axes if channel_shared.
// prelu_param: filler (constant 0.25), channel_shared (false).
// Types: float kinds; quant8 and quant16 forward (CodeSlopes), where y has a range of its own. Slopes
// are masters (float, double for double).
class PReLU : public CodedLayer {
 public:
  using CodedLayer::CodedLayer;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  LayerArrays Arrays(const BlobVec& bottom, const BlobVec& top) override {
    return {input_.Arrays(*bottom[0], *top[0], KeepsInput()), {}};
  }
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  // Whether Backward reads the bottom's data.
  bool KeepsInput() const { return need_backward() && types().compute.is_float(); }
  bool shared_ = false;
  int64_t outer_ = 0, channels_ = 0, inner_ = 0;  // shared: one channel
  InputCopy input_;
  ChannelSums sums_;
  CodeSlopes codes_;  // of quantized types
  std::unique_ptr<Kernel> forward_rows_, forward_columns_, backward_rows_, backward_columns_;
  std::unique_ptr<Kernel> slope_parts_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class PReLULayer final : public Layer<Dtype, MItype, MOtype, PReLU> {
  using Layer<Dtype, MItype, MOtype, PReLU>::Layer;
};

}  // namespace caffe

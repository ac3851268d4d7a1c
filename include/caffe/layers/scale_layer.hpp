#pragma once

#include "caffe/layer/broadcast.hpp"
#include "caffe/layer/channel_sums.hpp"
#include "caffe/layer/code_affine.hpp"
#include "caffe/layer/input_copy.hpp"

namespace caffe {

class LayerRegistry;

// y = s x, or s x + b with bias_term; s and b repeated along the axes that they do not have.
//   dE/dx = s dE/dy;  dE/ds (+)= the sum of x dE/dy and dE/db += that of dE/dy over those axes
// bottom 0, top 0: any shape, the same; in place allowed: a copy of the bottom is kept if dE/ds is
// needed. s is bottom 1, or a learned blob; its axes are those of bottom 0 from `axis` on. The
// gradient of a learned s is added, that of a bottom is written.
// blobs: s, if there is one bottom, of shape bottom 0 [axis, axis + num_axes); b, with bias_term, of
// the shape of s.
// scale_param: axis (1), bias_term (false), bias_filler (constant 0), and for a learned s: num_axes
//   (1; -1 for all, 0 for one value), filler (constant 1).
// Types: float kinds; with a learned s, quant8 and quant16 forward (CodeAffine), where y has a range
// of its own. Learned blobs are masters (float, double for double).
class Scale : public CodedLayer {
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
  bool KeepsInput() const {
    return need_backward() && types().compute.is_float() && (!learned_ || param_propagate_down(0));
  }
  // y = s x.
  void Multiply(const BlobBase& s, KernelArgument x, KernelArgument y);

  bool learned_ = true;
  int bias_index_ = -1;  // among blobs(); -1 without bias_term
  int axis_ = 0;         // of bottom 0, where s begins
  Broadcast shape_;
  InputCopy input_;
  CodeAffine codes_;  // of quantized types
  ChannelSums scale_sums_, bias_sums_, both_sums_;
  std::unique_ptr<Kernel> rows_, columns_, bias_rows_, bias_columns_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class ScaleLayer final : public Layer<Dtype, MItype, MOtype, Scale> {
  using Layer<Dtype, MItype, MOtype, Scale>::Layer;
};

}  // namespace caffe

#pragma once

#include "caffe/layer/broadcast.hpp"
#include "caffe/layer/channel_sums.hpp"
#include "caffe/layer/code_affine.hpp"

namespace caffe {

class LayerRegistry;

// y = x + b, b repeated along the axes that it does not have.
//   dE/dx = dE/dy,  dE/db (+)= the sum of dE/dy over those axes
// bottom 0, top 0: any shape, the same; in place allowed. b is bottom 1, or a learned blob; its axes
// are those of bottom 0 from `axis` on. The gradient of a learned b is added, of a bottom written.
// blobs: with one bottom: b, of shape bottom 0 [axis, axis + num_axes).
// bias_param: axis (1), and for a learned b: num_axes (1; -1 for all, 0 for one value), filler
//   (constant 0).
// Types: float kinds; with a learned b, quant8 and quant16 forward (CodeAffine), where y has a range
// of its own. A learned b is a master (float, double for double).
class Bias : public CodedLayer {
 public:
  using CodedLayer::CodedLayer;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  int axis_ = 0;  // of bottom 0, where b begins
  Broadcast shape_;
  ChannelSums sums_;
  CodeAffine codes_;  // of quantized types
  std::unique_ptr<Kernel> rows_, columns_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class BiasLayer final : public Layer<Dtype, MItype, MOtype, Bias> {
  using Layer<Dtype, MItype, MOtype, Bias>::Layer;
};

}  // namespace caffe

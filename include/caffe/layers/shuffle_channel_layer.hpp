#pragma once

#include "caffe/layer/layer.hpp"
#include "caffe/layer/strided_copy.hpp"

namespace caffe {

class LayerRegistry;

// The channels (axis 1) in another order: with n channels in each of `group` groups, channel g n + i
// of the bottom is channel i group + g of the top (Zhang et al., ShuffleNet, arXiv 1707.01083,
// section 3.1). The gradient is shuffled back.
// bottom 0: at least two axes; top 0: the same shape. Not in place.
// shuffle_channel_param: group (1), a divisor of the channels.
// Types: all; the range of quantized blobs is carried through. Backward float kinds.
class ShuffleChannel : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  StridedCopy forward_, backward_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class ShuffleChannelLayer final : public Layer<Dtype, MItype, MOtype, ShuffleChannel> {
  using Layer<Dtype, MItype, MOtype, ShuffleChannel>::Layer;
};

}  // namespace caffe

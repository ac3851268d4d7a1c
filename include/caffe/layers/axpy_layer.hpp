#pragma once

#include "caffe/layer/channel_sums.hpp"
#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// y = a x + b, with one factor a for each channel of each item (Hu et al., Squeeze-and-Excitation
// Networks, arXiv 1709.01507): Scale and Eltwise SUM in one layer.
//   dE/da = the sum over the channel of x dE/dy,  dE/dx = a dE/dy,  dE/db = dE/dy
// bottom 0: a [N, C], further axes are of one element; bottom 1: x [N, C, …]; bottom 2: b, like x;
// top 0: like x. Not in place.
// Types: float kinds. Sums are taken in float (double for double), in an order that depends on shape
// and device only.
class Axpy : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  int64_t rows_ = 0, columns_ = 0;  // N C, elements of a channel
  ChannelSums sums_;
  std::unique_ptr<Kernel> forward_, backward_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class AxpyLayer final : public Layer<Dtype, MItype, MOtype, Axpy> {
  using Layer<Dtype, MItype, MOtype, Axpy>::Layer;
};

}  // namespace caffe

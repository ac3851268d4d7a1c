#pragma once

#include "caffe/layer/channel_sums.hpp"
#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// y = a learned blob. The gradient of y is added to that of the blob.
// No bottom; top 0: the shape of the blob. In float (and double) the top and the blob share their
// data, and layers that would work in place on the top get separate memory. In half and bfloat16
// the top is a copy of the float blob.
// blobs: one of shape parameter_param.shape, 0 until weights are loaded or trained.
// parameter_param: shape (needed).
// Types: float kinds.
class Parameter : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void PrepareParameters() override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  ChannelSums sums_;  // adds a gradient of the top's type to the blob's
  std::unique_ptr<Kernel> convert_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class ParameterLayer final : public Layer<Dtype, MItype, MOtype, Parameter> {
  using Layer<Dtype, MItype, MOtype, Parameter>::Layer;
};

}  // namespace caffe

#pragma once

#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// Blobs that the caller fills: the inputs of a net.
// top 0…: input_param.shape, one for all tops or one per top; without a shape the caller reshapes.
// Types: all.
class Input : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  // The caller's shapes and values are kept, also on another device.
  void Reshape(const BlobVec&, const BlobVec&) override {}
  void Forward(const BlobVec&, const BlobVec&) override {}
  void Backward(const BlobVec&, const std::vector<bool>&, const BlobVec&) override {}

 private:
  bool set_up_ = false;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class InputLayer final : public Layer<Dtype, MItype, MOtype, Input> {
  using Layer<Dtype, MItype, MOtype, Input>::Layer;
};

}  // namespace caffe

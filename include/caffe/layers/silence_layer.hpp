#pragma once

#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// Reads blobs that no other layer reads, so that they are not outputs of the net. Their gradients
// are 0.
// bottom 0…: any shape; no top.
// Types: all.
class Silence : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void Reshape(const BlobVec&, const BlobVec&) override {}
  void Forward(const BlobVec&, const BlobVec&) override {}
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class SilenceLayer final : public Layer<Dtype, MItype, MOtype, Silence> {
  using Layer<Dtype, MItype, MOtype, Silence>::Layer;
};

}  // namespace caffe

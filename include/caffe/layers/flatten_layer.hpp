#pragma once

#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// Axes `axis` to `end_axis` of x become one; nothing is copied, x and y share data and gradient.
// bottom 0: any shape; top 0: (before axis…, their product, behind end_axis…).
// flatten_param: axis (1), end_axis (-1). Types: all; quantized ones forward only.
class Flatten : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class FlattenLayer final : public Layer<Dtype, MItype, MOtype, Flatten> {
  using Layer<Dtype, MItype, MOtype, Flatten>::Layer;
};

}  // namespace caffe

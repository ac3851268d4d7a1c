#pragma once

#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// y_i = x for every top i; nothing is copied, the tops share the bottom's memory.
//   dE/dx = sum over i of dE/dy_i
// bottom 0: any shape; top 0…: the same shape. Types: all; quantized ones forward only.
// The pass InsertSplits adds it where a blob has several readers.
class Split : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;

 private:
  std::unique_ptr<Kernel> add_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class SplitLayer final : public Layer<Dtype, MItype, MOtype, Split> {
  using Layer<Dtype, MItype, MOtype, Split>::Layer;
};

}  // namespace caffe

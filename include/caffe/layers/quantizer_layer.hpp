#pragma once

#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// y = x in another type. Between float kinds a cast, rounded to nearest even. To a quantized type
//   y = clamp(round(x / s_y) + z_y), round half away from zero, NaN gives z_y,
// from one x = s_x (code - z_x), with the ranges that the blobs carry.
//   dE/dx = dE/dy (float kinds only)
// bottom 0, top 0: any shape, the same. Types: any pair.
class Quantizer : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;

 private:
  std::unique_ptr<Kernel> forward_, backward_;
};

}  // namespace caffe

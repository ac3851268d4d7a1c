#pragma once

#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

// y = x in another type: between float kinds a conversion, rounded to nearest even; to a quantized
// type code = round(x / scale) + zero point, half away from zero and clamped; from one
// scale * (code - zero point). The ranges are those of the blobs. dE/dx = dE/dy, converted.
// bottom 0, top 0: any shape, the same. Not in place.
// Types: any pair of types; backward between float kinds.
class QuantizerLayer final : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  std::unique_ptr<Kernel> forward_, backward_;
};

}  // namespace caffe

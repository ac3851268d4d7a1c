#pragma once

#include <memory>

#include "caffe/layer/folded_weights.hpp"
#include "caffe/memory/derived.hpp"

namespace caffe {

// A copy of weights of a float kind, quantized and dequantized: it holds the real numbers of the
// symmetric codes that each output channel has in a quantized net. No weight is clamped, so that
// the gradient of the copy is that of the weights. Formulas: kernels/quant/pseudo.h.
class PseudoWeights final : public Derived {
 public:
  // `target` is quant8 or quant16. `source`, a master, must outlive this.
  PseudoWeights(const BlobBase* source, const FoldedWeights::Layout& layout, DataType target,
                DataType compute, Device* device);
  const BlobBase& blob() const { return *copy_; }

 private:
  void Build() override;

  const BlobBase* source_;
  FoldedWeights::Layout layout_;
  double codes_;
  std::shared_ptr<BlobBase> copy_, scales_;
  std::unique_ptr<Kernel> find_scales_, quantize_;
};

}  // namespace caffe

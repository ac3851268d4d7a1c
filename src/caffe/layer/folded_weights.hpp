#pragma once

#include <memory>
#include <vector>

#include "caffe/layer/layer_facts.hpp"
#include "caffe/memory/derived.hpp"

namespace caffe {

// Weights and bias of a convolution, an inner product or a deconvolution with maps y = scale[c] x +
// shift[c] folded in, which follow it and are applied in order:
//   w'[c] = w[c] scale[c],  b'[c] = b[c] scale[c] + shift[c]
// computed in double on the host and rounded once, to the type of the weights.
class FoldedWeights final : public Derived {
 public:
  // The position of an output channel's weights, as in LayerFacts::Weighted: in an array [group,
  // outer, channels / group, inner], channel g channels / group + j is [g, :, j, :].
  struct Layout {
    int64_t channels = 1, group = 1, outer = 1;
  };
  FoldedWeights() = default;
  // The bias may be null. Blobs and the sources of the maps must outlive this.
  FoldedWeights(const BlobBase* weights, const BlobBase* bias, const Layout& layout,
                std::vector<Affine> maps);
  const BlobBase& weights() const { return *folded_weights_; }
  const BlobBase& bias() const { return *folded_bias_; }

 private:
  void Build() override;

  const BlobBase *weights_ = nullptr, *bias_ = nullptr;
  Layout layout_;
  std::vector<Affine> maps_;
  std::shared_ptr<BlobBase> folded_weights_, folded_bias_;
};

}  // namespace caffe

#pragma once

#include "caffe/layer/conv_setup.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/parameter_copy.hpp"
#include "caffe/library/bias.hpp"
#include "caffe/library/convolution.hpp"
#include "caffe/library/prepared_weights.hpp"

namespace caffe {

class LayerRegistry;

// The transpose of Convolution over the spatial axes, those after `axis`, plus a bias per output
// channel:
//   y[n, o, p stride + k dilation - pad] += w[c, o, k] x[n, c, p], over c and k, and b[o]
//   output extent = stride (input - 1) + dilation (kernel - 1) + 1 - 2 pad
//   Its gradient of x is a convolution of dE/dy.
// bottoms: [N…, C, spatial…], all of one shape; one top for each: [N…, num_output, output…].
// blobs, shared by all pairs: weights [C, num_output / group, kernel…], bias [num_output].
// convolution_param: as of Convolution. For upsampling by a factor f without learning: kernel_size
//   2 f - f % 2, stride f, pad ceil((f - 1) / 2), num_output and group C, weight_filler bilinear.
// Types: float kinds. Weights and bias are masters (float, double for double). A following ReLU is
// computed here in the TEST phase.
class Deconvolution : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void PrepareParameters() override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;
  bool CanFuseReLU() const override;
  void SetFusedReLU(bool fused) override;

 private:
  // Makes the operators for the shapes at hand, with what the backward pass needs or without.
  void MakeOperation(bool backward);

  ConvSetup setup_;
  bool fused_relu_ = false;
  Shape input_, output_;  // of a bottom and a top, as the operators were made for them
  ParameterCopy weights_, bias_;
  std::unique_ptr<ConvOp> operation_;  // the convolution from tops to bottoms
  PreparedWeights prepared_;
  std::unique_ptr<BiasOp> bias_operation_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class DeconvolutionLayer final : public Layer<Dtype, MItype, MOtype, Deconvolution> {
  using Layer<Dtype, MItype, MOtype, Deconvolution>::Layer;
};

}  // namespace caffe

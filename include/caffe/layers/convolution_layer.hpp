#pragma once

#include "caffe/layer/conv_setup.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/parameter_copy.hpp"
#include "caffe/layer/quantized_parameters.hpp"
#include "caffe/library/convolution.hpp"
#include "caffe/library/prepared_weights.hpp"

namespace caffe {

class LayerRegistry;

// Cross-correlation over the spatial axes, those after `axis`, plus a bias per output channel:
//   y[n, o, p] = b[o] + sum over c, k of w[o, c, k] x[n, c, p stride + k dilation - pad]
//   output extent = (input + 2 pad - (dilation (kernel - 1) + 1)) / stride + 1, rounded down
// bottoms: [N…, C, spatial…], all of one shape; one top for each: [N…, num_output, output…].
// blobs, shared by all pairs: weights [num_output, C / group, kernel…], bias [num_output].
// convolution_param: num_output, bias_term (true), kernel_size, stride (1), pad (0), dilation (1),
//   each once for all spatial axes or once per axis, or as _h and _w for two axes; group (1);
//   weight_filler, bias_filler; axis (1).
// Types: float kinds; quant8 and quant16 forward, per output channel unless blobs_quantizer(0) says
// per_tensor, see QuantizedParameters. Weights and bias are masters (float, double for double). A
// following ReLU is computed here in the TEST phase.
class Convolution : public LayerBase {
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
  // Makes operation_ for the shape at hand, with its backward passes or without.
  void MakeOperation(bool backward);

  ConvSetup setup_;
  bool fused_relu_ = false;
  Shape input_;  // of a bottom, as the operation was made for it
  ParameterCopy weights_, bias_;
  std::unique_ptr<ConvOp> operation_;
  PreparedWeights prepared_;
  // Of a quantized bottom, since each has a range of its own.
  struct Quantized {
    QuantizedParameters parameters;
    std::unique_ptr<ConvOp> operation;
    PreparedWeights prepared;
  };
  std::vector<Quantized> quantized_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class ConvolutionLayer final : public Layer<Dtype, MItype, MOtype, Convolution> {
  using Layer<Dtype, MItype, MOtype, Convolution>::Layer;
};

}  // namespace caffe

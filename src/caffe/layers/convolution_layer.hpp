#pragma once

#include "caffe/layer/conv_setup.hpp"
#include "caffe/layer/weighted_layer.hpp"

namespace caffe {

// Cross-correlation over the spatial axes, those after `axis`, plus a bias per output channel:
//   y[n, o, p] = b[o] + sum over c, k of w[o, c, k] x[n, c, p stride + k dilation - pad]
//   output extent = (input + 2 pad - (dilation (kernel - 1) + 1)) / stride + 1, rounded down
// bottoms: [N…, C, spatial…], all of one shape; one top for each: [N…, num_output, output…].
// blobs, shared by all pairs: weights [num_output, C / group, kernel…], bias [num_output].
// convolution_param: num_output, bias_term (true), kernel_size, stride (1), pad (0), dilation (1),
//   each once for all spatial axes or once per axis, or as _h and _w for two axes; group (1);
//   weight_filler, bias_filler; axis (1).
// Types: float kinds; quant8 and quant16 forward, per output channel unless blobs_quantizer(0) says
// per_tensor, see QuantizedParameters. Weights and bias are masters (float, double for double).
class Convolution : public WeightedLayer {
 public:
  using WeightedLayer::WeightedLayer;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;
  int64_t input_rows() const override;
  int64_t input_groups() const override { return setup_.group; }
  void GatherRows(const std::vector<float>& values, int64_t group, const std::vector<int64_t>& rows,
                  float* to) const override;
  std::unique_ptr<WeightedOp> MakeOp(const Epilogue& epilogue,
                                     std::shared_ptr<OperatorWeights> weights, bool backward,
                                     LayoutPair layouts) const override;
  void BackwardBy(WeightedOp* op, const BlobVec& top, const std::vector<bool>& propagate_down,
                  const BlobVec& bottom) override;

 protected:
  OperatorWeights::Source WeightSource() const override;

 private:
  WeightedConv& Own() const { return static_cast<WeightedConv&>(op(0)); }

  ConvSetup setup_;
  Shape input_;  // of a bottom, as the operators were made for it
};

}  // namespace caffe

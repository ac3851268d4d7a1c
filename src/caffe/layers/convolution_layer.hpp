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
//
// GroupedConvolution is one of the layers that compute a MOE layer: a Convolution for each expert,
// which computes the rows of that expert.
// bottom 0: x [rows, C, …]; bottom 1: offsets [E + 1] of MOERoute, always float.
// top 0: [rows, num_output, …].
// blobs: weights and bias of each expert, one expert after the other.
// convolution_param: with axis 1; moe_param: experts (E), select_experts.
// In quantized types there is one range for the rows of all experts.
class Convolution : public WeightedLayer {
 public:
  using WeightedLayer::WeightedLayer;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  LayerFacts Facts() const override;
  int64_t input_rows() const override;
  int64_t input_groups() const override { return setup_.group; }
  void GatherRows(const std::vector<float>& values, int64_t group, const std::vector<int64_t>& rows,
                  float* to) const override;

 protected:
  OperatorWeights::Source WeightSource() const override;
  std::unique_ptr<LibraryOp> MakeLibraryOp(int64_t rows, const Epilogue& epilogue,
                                           const JointWeights::Groups& weights, bool backward,
                                           LayoutPair layouts) const override;
  bool KnowsAllGroups(const JointWeights::Groups& weights) const override;

 private:
  // For so many items and the groups of these weights.
  ConvDescriptor Descriptor(int64_t rows, const Epilogue& epilogue,
                            const JointWeights::Groups& weights) const;
  // The layouts in which libraries compute all operators.
  LayerFacts::Layouts Layouts() const;

  ConvSetup setup_;
  Shape input_;  // of a bottom, as the operators were made for it
};

}  // namespace caffe

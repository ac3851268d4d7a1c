#pragma once

#include <memory>
#include <vector>

#include "caffe/layer/code_deconvolution.hpp"
#include "caffe/layer/conv_setup.hpp"
#include "caffe/layer/weighted_layer.hpp"

namespace caffe {

class LayerRegistry;

// The transpose of Convolution over the spatial axes, those after `axis`, plus a bias per output
// channel:
//   y[n, o, p stride + k dilation - pad] += w[c, o, k] x[n, c, p], over c and k, and b[o]
//   output extent = stride (input - 1) + dilation (kernel - 1) + 1 - 2 pad
//   Its gradient of x is a convolution of dE/dy.
// bottoms: [N…, C, spatial…], all of one shape; one top for each: [N…, num_output, output…].
// blobs, shared by all pairs: weights [C, num_output / group, kernel…], bias [num_output].
// convolution_param: as for Convolution. For upsampling by a factor f without learning: kernel_size
//   2 f - f % 2, stride f, pad ceil((f - 1) / 2), num_output and group C, weight_filler bilinear.
// Types: float kinds; with up to 3 spatial axes, quant8 and quant16 forward (CodeDeconvolution),
// where y has a range of its own. Weights and bias are masters (float, double for double).
class Deconvolution : public WeightedLayer {
 public:
  using WeightedLayer::WeightedLayer;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void PrepareParameters() override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  std::unique_ptr<Work> MakeWork(const WorkRequest& request, const BlobVec& bottom,
                                 const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;
  void CountMemory(WorkMemory* memory) const override;
  std::unique_ptr<WeightedOp> MakeOp(const Epilogue& epilogue,
                                     std::shared_ptr<OperatorWeights> weights, bool backward,
                                     LayoutPair layouts) const override;

 protected:
  OperatorWeights::Source WeightSource() const override;

 private:
  WeightedDeconv& Own() const { return static_cast<WeightedDeconv&>(op(0)); }

  ConvSetup setup_;
  // Of quantized types: one for each bottom, because bottoms have separate ranges.
  std::vector<std::unique_ptr<CodeDeconvolution>> codes_;
  Shape input_, output_;  // of a bottom and a top, as the operators were made for them
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class DeconvolutionLayer final : public Layer<Dtype, MItype, MOtype, Deconvolution> {
  using Layer<Dtype, MItype, MOtype, Deconvolution>::Layer;
};

}  // namespace caffe

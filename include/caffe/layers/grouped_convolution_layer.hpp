#pragma once

#include "caffe/layer/conv_setup.hpp"
#include "caffe/layer/grouped_layer.hpp"

namespace caffe {

class LayerRegistry;

// One of the layers that compute a MOE layer: a Convolution for each expert, which computes the rows
// of that expert.
//   y[r] = the convolution of x[r] with the weights of the expert of row r, and its bias
// bottom 0: x [rows, C, …]; bottom 1: offsets [E + 1] of MOERoute, always float.
// top 0: [rows, num_output, …]. Not in place.
// blobs: weights and bias of each expert, as in Convolution.
// convolution_param: as in Convolution, with axis 1; moe_param: experts (E), select_experts.
// Types: float kinds; quant8 and quant16 forward: one range for the rows of all experts, weights per
// expert and output channel.
class GroupedConvolution : public GroupedLayer {
 public:
  using GroupedLayer::GroupedLayer;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 protected:
  OperatorWeights::Source WeightSource(int group) const override;
  std::unique_ptr<WeightedOp> MakeOp(int64_t rows, const Epilogue& epilogue,
                                     std::shared_ptr<OperatorWeights> weights, bool backward,
                                     LayoutPair layouts) const override;
  std::unique_ptr<GroupedOp> MakeJointOp(const Epilogue& epilogue,
                                         const JointWeights::Groups& weights,
                                         LayoutPair layouts) const override;
  bool KnowsJointOp(const OperatorWeights& weights) const override;

 private:
  // Of one expert, for so many rows.
  ConvDescriptor Descriptor(int64_t rows) const;
  // Of all experts.
  ConvDescriptor JointDescriptor(const Epilogue& epilogue, const OperatorWeights& weights) const;

  ConvSetup setup_;
  Shape input_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class GroupedConvolutionLayer final : public Layer<Dtype, MItype, MOtype, GroupedConvolution> {
  using Layer<Dtype, MItype, MOtype, GroupedConvolution>::Layer;
};

}  // namespace caffe

#pragma once

#include "caffe/layer/grouped_layer.hpp"

namespace caffe {

class LayerRegistry;

// One of the layers that compute a MOE layer: an InnerProduct for each expert, which computes the rows
// of that expert.
//   y[r] = W x[r] + b with the weights and the bias of the expert of row r
// bottom 0: x [rows, …]; bottom 1: offsets [E + 1] of MOERoute, always float.
// top 0: [rows, num_output]. Not in place.
// blobs: weights and bias of each expert, as in InnerProduct.
// inner_product_param: as in InnerProduct, with axis 1; moe_param: experts (E), select_experts.
// Types: float kinds; quant8 and quant16 forward: one range for the rows of all experts, weights per
// expert and output.
class GroupedInnerProduct : public GroupedLayer {
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
  GemmDescriptor Descriptor(int64_t rows, const Epilogue& epilogue,
                            const OperatorWeights& weights) const;
  // Of all experts.
  GemmDescriptor JointDescriptor(const Epilogue& epilogue, const OperatorWeights& weights) const;
  void MakeBackward();

  int64_t n_ = 0, k_ = 0, rows_ = -1;
  bool has_bias_ = true, transpose_ = false;
  // Of each size of parts.
  std::vector<std::unique_ptr<GemmOp>> backward_data_, backward_weights_;
  std::vector<std::unique_ptr<BiasOp>> backward_bias_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class GroupedInnerProductLayer final : public Layer<Dtype, MItype, MOtype, GroupedInnerProduct> {
  using Layer<Dtype, MItype, MOtype, GroupedInnerProduct>::Layer;
};

}  // namespace caffe

#pragma once

#include "caffe/layer/weighted_layer.hpp"

namespace caffe {

class LayerRegistry;

// y = x W' + b, where x is bottom 0 as a matrix [M, K]: axes before `axis` are rows.
//   dE/dx = dE/dy W,  dE/dW += (dE/dy)' x,  dE/db += the column sums of dE/dy
// bottom 0: [d0, …, K…]; top 0: [d0, …, num_output]. Not in place.
// blobs: weights [num_output, K] ([K, num_output] with transpose), bias [num_output].
// inner_product_param: num_output, bias_term (true), weight_filler, bias_filler, axis (1),
//   transpose (false).
// Types: float kinds; quant8 and quant16 forward, per output unless blobs_quantizer(0) says
// per_tensor, see QuantizedParameters. Weights and bias are masters (float, double for double).
class InnerProduct : public WeightedLayer {
 public:
  using WeightedLayer::WeightedLayer;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;
  void CountMemory(WorkMemory* memory) const override;
  int64_t input_rows() const override { return m_; }
  void GatherRows(const std::vector<float>& values, int64_t group, const std::vector<int64_t>& rows,
                  float* to) const override;
  std::unique_ptr<WeightedOp> MakeOp(const Epilogue& epilogue,
                                     std::shared_ptr<OperatorWeights> weights, bool backward,
                                     LayoutPair layouts) const override;

 protected:
  OperatorWeights::Source WeightSource() const override;
  void OnResetOps() override;

 private:
  void MakeBackward();
  // Whether the operators pack the weights for several steps of a recurrent layer.
  bool PreparesForSteps() const;

  int64_t m_ = -1, n_ = 0, k_ = 0;
  int axis_ = 1;
  bool has_bias_ = true, transpose_ = false;
  std::unique_ptr<GemmOp> backward_data_, backward_weights_;
  std::shared_ptr<PreparedWeights> prepared_data_;  // for backward_data_, of the first backward
  std::unique_ptr<BiasOp> backward_bias_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class InnerProductLayer final : public Layer<Dtype, MItype, MOtype, InnerProduct> {
  using Layer<Dtype, MItype, MOtype, InnerProduct>::Layer;
};

}  // namespace caffe

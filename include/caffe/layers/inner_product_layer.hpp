#pragma once

#include "caffe/layer/layer.hpp"
#include "caffe/layer/parameter_copy.hpp"
#include "caffe/layer/quantized_parameters.hpp"
#include "caffe/library/bias.hpp"
#include "caffe/library/gemm.hpp"
#include "caffe/library/prepared_weights.hpp"

namespace caffe {

class LayerRegistry;

// y = x W' + b, where x is bottom 0 as a matrix [M, K]: axes before `axis` are rows.
//   dE/dx = dE/dy W,  dE/dW += (dE/dy)' x,  dE/db += the column sums of dE/dy
// bottom 0: [d0, …, K…]; top 0: [d0, …, num_output]. Not in place.
// blobs: weights [num_output, K] ([K, num_output] with transpose), bias [num_output].
// inner_product_param: num_output, bias_term (true), weight_filler, bias_filler, axis (1),
//   transpose (false).
// Types: float kinds; quant8 and quant16 forward, per output unless blobs_quantizer(0) says
// per_tensor, see QuantizedParameters. Weights and bias are masters (float, double for double). A
// following ReLU is computed here in the TEST phase.
class InnerProduct : public LayerBase {
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
  void MakeForward();
  void MakeBackward();

  int64_t m_ = -1, n_ = 0, k_ = 0;
  int axis_ = 1;
  bool has_bias_ = true, transpose_ = false, fused_relu_ = false;
  ParameterCopy weights_, bias_;
  QuantizedParameters quantized_;
  PreparedWeights prepared_;
  std::unique_ptr<GemmOp> forward_, backward_data_, backward_weights_;
  std::unique_ptr<BiasOp> backward_bias_;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class InnerProductLayer final : public Layer<Dtype, MItype, MOtype, InnerProduct> {
  using Layer<Dtype, MItype, MOtype, InnerProduct>::Layer;
};

}  // namespace caffe

#pragma once

#include <memory>

#include "caffe/layer/operator_weights.hpp"
#include "caffe/library/bias.hpp"
#include "caffe/library/convolution.hpp"
#include "caffe/library/gemm.hpp"
#include "caffe/library/prepared_weights.hpp"

namespace caffe {

// One way of computing a layer with weights: an operator with its epilogue, and its weights. A
// layer has one for its own forward; a fused step makes another one, with more stages and with
// folded weights.
class WeightedOp {
 public:
  struct Operands {
    DevicePtr x, y;
    EpilogueOperands epilogue = {};
    DevicePtr workspace = {};
  };
  virtual ~WeightedOp() = default;
  virtual const Operator& op() const = 0;
  Operator& mutable_op() { return const_cast<Operator&>(op()); }
  // The largest need of Run and of the passes of op().
  virtual int64_t workspace_bytes() const { return op().workspace_bytes(); }
  // The products in the sums of Run, those with padding included.
  virtual int64_t products() const = 0;
  // Bytes of weights and bias that Run reads.
  int64_t parameter_bytes() const;
  // Adds what Prepare allocates; may be called before it.
  void CountMemory(WorkMemory* memory) const;
  // Brings the weights up to date; call it before a forward, and for quantized types after
  // weights().SetRanges.
  void Prepare();
  // There is no backward pass: memory of weights in forms that Run does not read is freed.
  void set_forward_only(bool value) { forward_only_ = value; }
  virtual void Run(const Operands& operands) = 0;
  OperatorWeights& weights() const { return *weights_; }

 protected:
  explicit WeightedOp(std::shared_ptr<OperatorWeights> weights) : weights_(std::move(weights)) {}
  // The weights for a forward; null if they were freed, because the operator has prepared ones.
  DevicePtr ForwardWeights() const;
  std::shared_ptr<OperatorWeights> weights_;
  std::shared_ptr<PreparedWeights> prepared_;

 private:
  bool FreesWeights() const { return forward_only_ && prepared_->data(); }

  bool forward_only_ = false;
};

class WeightedConv final : public WeightedOp {
 public:
  WeightedConv(Device* device, const ConvDescriptor& descriptor,
               std::shared_ptr<OperatorWeights> weights);
  const ConvOp& op() const override { return *op_; }
  int64_t products() const override;
  void Run(const Operands& operands) override;
  ConvOp& conv() { return *op_; }
  // For the passes of conv(), with the weights filled in.
  ConvGradients Gradients(DevicePtr workspace) const;

 private:
  std::unique_ptr<ConvOp> op_;
};

// The transpose: x is the descriptor's y.
class WeightedDeconv final : public WeightedOp {
 public:
  WeightedDeconv(Device* device, const ConvDescriptor& descriptor, const Epilogue& epilogue,
                 std::shared_ptr<OperatorWeights> weights);
  const ConvOp& op() const override { return *op_; }
  int64_t products() const override;
  int64_t workspace_bytes() const override;
  void Run(const Operands& operands) override;
  // The gradients of the convolution from y to x.
  void BackwardData(DevicePtr y_diff, DevicePtr x_diff, DevicePtr workspace);
  void BackwardWeights(DevicePtr y_diff, DevicePtr x, DevicePtr w_diff, DevicePtr workspace);
  void BackwardBias(DevicePtr y_diff, DevicePtr b_diff, DevicePtr workspace);

 private:
  std::unique_ptr<ConvOp> op_;
  std::unique_ptr<BiasOp> bias_op_;  // null if nothing follows the product
};

// y = x op(W): x is A, the weights are B.
class WeightedGemm final : public WeightedOp {
 public:
  WeightedGemm(Device* device, const GemmDescriptor& descriptor,
               std::shared_ptr<OperatorWeights> weights);
  const GemmOp& op() const override { return *op_; }
  int64_t products() const override;
  void Run(const Operands& operands) override;

 private:
  std::unique_ptr<GemmOp> op_;
};

}  // namespace caffe

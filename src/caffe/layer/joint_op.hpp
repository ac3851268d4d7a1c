#pragma once

#include <memory>

#include "caffe/layer/grouped_op.hpp"
#include "caffe/layer/joint_weights.hpp"
#include "caffe/library/convolution.hpp"
#include "caffe/library/gemm.hpp"

namespace caffe {

// Computes the rows of all groups by one operator, which reads on the device how many each group
// has (`row_groups` of the descriptors). There is only a forward pass.
class JointOp : public GroupedOp {
 public:
  const char* library() const override { return op().library(); }
  int64_t workspace_bytes() const override { return op().workspace_bytes(); }
  int64_t parameter_bytes() const override;
  void CountMemory(WorkMemory* memory) const override;
  void Prepare() override;

 protected:
  JointOp(int64_t rows, bool forward_only) : rows_(rows), forward_only_(forward_only) {}
  virtual Operator& op() const = 0;
  // What the arguments of all operators have, besides the names of the arrays.
  template <class Arguments>
  Arguments Common(const Operands& operands, QuantArguments* quant) const;
  void set_weights(std::unique_ptr<JointWeights> weights) { weights_ = std::move(weights); }
  const JointWeights& weights() const { return *weights_; }

 private:
  int64_t rows_;
  bool forward_only_;
  std::unique_ptr<JointWeights> weights_;
};

class JointConv final : public JointOp {
 public:
  // `descriptor` has a bias as the weights have, and row_groups. `forward_only`: see
  // WeightedOp::set_forward_only.
  JointConv(Device* device, const ConvDescriptor& descriptor, JointWeights::Groups weights,
            bool forward_only);
  int64_t products() const override;
  void Run(const Operands& operands) override;

 private:
  Operator& op() const override { return *op_; }
  std::unique_ptr<ConvOp> op_;
};

class JointGemm final : public JointOp {
 public:
  JointGemm(Device* device, const GemmDescriptor& descriptor, JointWeights::Groups weights,
            bool forward_only);
  int64_t products() const override;
  void Run(const Operands& operands) override;

 private:
  Operator& op() const override { return *op_; }
  std::unique_ptr<GemmOp> op_;
};

}  // namespace caffe

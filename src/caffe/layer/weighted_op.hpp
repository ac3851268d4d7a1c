#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "caffe/layer/joint_weights.hpp"
#include "caffe/layer/row_parts.hpp"
#include "caffe/library/bias.hpp"
#include "caffe/library/convolution.hpp"
#include "caffe/library/gemm.hpp"
#include "caffe/memory/workspace.hpp"

namespace caffe {

class LibraryOp;

// One way of computing a layer with weights: operators with their epilogue, and their weights. A
// layer has one for its own forward; a fused step makes another one, with more stages and with
// folded weights.
class WeightedOp {
 public:
  struct Operands {
    DevicePtr x, y;
    EpilogueOperands epilogue = {};
    DevicePtr workspace = {};
    // The first row of each group, and the end of the last one; null if there is one group.
    const BlobBase* offsets = nullptr;
  };
  virtual ~WeightedOp() = default;
  virtual const char* library() const = 0;
  // The largest need of Run and of the passes of gradients.
  virtual int64_t workspace_bytes() const = 0;
  // The products in the sums of Run, those with padding included, if all rows are in use.
  virtual int64_t products() const = 0;
  // Bytes of weights and bias that Run reads, of as many groups as it can use.
  virtual int64_t parameter_bytes() const = 0;
  // Adds what Prepare allocates; may be called before it.
  virtual void CountMemory(WorkMemory* memory) const = 0;
  // Brings the weights up to date; call it before a forward, and for quantized types after
  // SetRanges of all weights.
  virtual void Prepare() = 0;
  virtual void Run(const Operands& operands) = 0;

  // The operators that compute the rows, each with its first row, and with its group. Those of
  // these offsets; valid until the next call and the next Run.
  virtual const std::vector<RowParts::Part>& Find(const BlobBase* offsets) = 0;
  virtual LibraryOp& Of(const RowParts::Part& part) = 0;
};

// One operator of a library: all rows of one group, or of all groups, for which it reads on the
// device how many rows each group has (`row_groups` of the descriptors).
class LibraryOp : public WeightedOp {
 public:
  // Each pass computes the gradient whose array is not null.
  struct Gradients {
    DevicePtr x, y_diff;
    DevicePtr x_diff = {}, w_diff = {}, b_diff = {};
  };
  const char* library() const override { return op().library(); }
  int64_t workspace_bytes() const override { return op().workspace_bytes(); }
  int64_t parameter_bytes() const override;
  void CountMemory(WorkMemory* memory) const override { weights_->CountMemory(memory); }
  void Prepare() override { weights_->Refresh(); }
  const std::vector<RowParts::Part>& Find(const BlobBase*) override { return all_; }
  LibraryOp& Of(const RowParts::Part&) override { return *this; }

  virtual const Operator& op() const = 0;
  // Writes dE/dx, and adds the others. Only for an operator of one group that was made for it.
  virtual void Backward(const Gradients& gradients, Workspace* workspace) = 0;
  // There is no backward pass: see JointWeights.
  void set_forward_only(bool value) { weights_->set_forward_only(value); }

 protected:
  // Takes the weights, for this operator and so many rows. Call it in the constructor.
  void SetWeights(JointWeights::Groups groups, Operator* op, const std::string& key, int64_t rows);
  // The arguments that all operators have, besides x, y and the weights.
  template <class Arguments>
  Arguments Common(const Operands& operands, QuantArguments* quant) const;
  const JointWeights& weights() const { return *weights_; }
  OperatorWeights& one() const { return *weights_->groups()[0]; }

 private:
  std::unique_ptr<JointWeights> weights_;
  int64_t rows_ = 0;
  const std::vector<RowParts::Part> all_ = std::vector<RowParts::Part>(1);
};

class WeightedConv final : public LibraryOp {
 public:
  WeightedConv(Device* device, const ConvDescriptor& descriptor, JointWeights::Groups weights);
  const ConvOp& op() const override { return *op_; }
  int64_t products() const override;
  void Run(const Operands& operands) override;
  void Backward(const Gradients& gradients, Workspace* workspace) override;

 private:
  std::unique_ptr<ConvOp> op_;
};

// The transpose: x is the descriptor's y.
class WeightedDeconv final : public LibraryOp {
 public:
  WeightedDeconv(Device* device, const ConvDescriptor& descriptor, const Epilogue& epilogue,
                 JointWeights::Groups weights);
  const ConvOp& op() const override { return *op_; }
  int64_t products() const override;
  int64_t workspace_bytes() const override;
  void Run(const Operands& operands) override;
  // The gradients of the convolution from y to x.
  void Backward(const Gradients& gradients, Workspace* workspace) override;

 private:
  std::unique_ptr<ConvOp> op_;
  std::unique_ptr<BiasOp> bias_op_;  // null if nothing follows the product
};

// y = x op(W): x is A, the weights are B.
class WeightedGemm final : public LibraryOp {
 public:
  // `backward`: whether W is prepared for the product that computes dE/dx; without it there is no
  // backward pass.
  WeightedGemm(Device* device, const GemmDescriptor& descriptor, JointWeights::Groups weights,
               std::optional<GemmDescriptor::Weights> backward);
  const GemmOp& op() const override { return *op_; }
  int64_t products() const override;
  int64_t workspace_bytes() const override;
  void CountMemory(WorkMemory* memory) const override;
  void Run(const Operands& operands) override;
  //   dE/dx = dE/dy W,  dE/dW += (dE/dy)' x,  dE/db += the column sums of dE/dy
  void Backward(const Gradients& gradients, Workspace* workspace) override;

 private:
  std::unique_ptr<GemmOp> op_;
  std::unique_ptr<GemmOp> data_op_, weights_op_;   // for gradients
  std::shared_ptr<PreparedWeights> data_weights_;  // of data_op_
  std::unique_ptr<BiasOp> bias_op_;
};

}  // namespace caffe

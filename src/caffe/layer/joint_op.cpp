#include "caffe/layer/joint_op.hpp"

#include <algorithm>
#include <utility>

#include "caffe/library/multiplexer.hpp"

namespace caffe {

int64_t JointOp::parameter_bytes() const {
  const auto groups = static_cast<int64_t>(weights_->groups().size());
  return std::min(rows_, groups) * weights_->group_bytes();
}

void JointOp::CountMemory(WorkMemory* memory) const {
  weights_->CountMemory(forward_only_, memory);
}

void JointOp::Prepare() { weights_->Refresh(forward_only_); }

template <class Arguments>
Arguments JointOp::Common(const Operands& operands, QuantArguments* quant) const {
  Arguments arguments;
  arguments.prepared = weights_->prepared();
  arguments.bias = weights_->bias();
  if (operands.residual) arguments.epilogue.residual = operands.residual->device_data();
  arguments.workspace = operands.workspace;
  arguments.offsets = operands.offsets->device_data();
  if (weights_->groups()[0]->quantized()) {
    *quant = weights_->quant();
    arguments.quant = quant;
  }
  return arguments;
}

JointConv::JointConv(Device* device, const ConvDescriptor& descriptor, JointWeights::Groups weights,
                     bool forward_only)
    : JointOp(descriptor.batch, forward_only), op_(Multiplexer::Convolution(device, descriptor)) {
  set_weights(
      std::make_unique<JointWeights>(std::move(weights), op_.get(), op_->descriptor().key()));
}

int64_t JointConv::products() const {
  const ConvDescriptor& d = op_->descriptor();
  return d.batch * d.out_channels * d.geometry.output_count() * d.depth();
}

void JointConv::Run(const Operands& operands) {
  QuantArguments quant;
  auto arguments = Common<ConvArguments>(operands, &quant);
  arguments.x = operands.x->device_data();
  arguments.weights = weights().weights();
  arguments.y = operands.y->mutable_device_data();
  op_->Forward(arguments);
}

JointGemm::JointGemm(Device* device, const GemmDescriptor& descriptor, JointWeights::Groups weights,
                     bool forward_only)
    : JointOp(descriptor.m, forward_only), op_(Multiplexer::Gemm(device, descriptor)) {
  set_weights(std::make_unique<JointWeights>(std::move(weights), op_.get(), descriptor.key()));
}

int64_t JointGemm::products() const {
  const GemmDescriptor& d = op_->descriptor();
  return d.m * d.n * d.k;
}

void JointGemm::Run(const Operands& operands) {
  QuantArguments quant;
  auto arguments = Common<GemmArguments>(operands, &quant);
  arguments.a = operands.x->device_data();
  arguments.b = weights().weights();
  arguments.c = operands.y->mutable_device_data();
  op_->Run(arguments);
}

}  // namespace caffe

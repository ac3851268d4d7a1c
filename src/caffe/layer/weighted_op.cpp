#include "caffe/layer/weighted_op.hpp"

#include <algorithm>
#include <utility>

#include "caffe/library/multiplexer.hpp"

namespace caffe {
namespace {

// The transpose has as many.
int64_t Products(const ConvDescriptor& d) {
  return d.batch * d.out_channels * d.geometry.output_count() * d.depth();
}

}  // namespace

int64_t WeightedOp::parameter_bytes() const {
  const int64_t prepared = op().prepared_bytes();
  return (prepared > 0 ? prepared : weights_->weights().bytes()) + weights_->channel_bytes();
}

void WeightedOp::CountMemory(WorkMemory* memory) const {
  memory->Add(prepared_, op().prepared_bytes());
  weights_->CountMemory(forward_only_, op().prepared_bytes() > 0, memory);
}

void WeightedOp::Prepare() {
  weights_->Refresh(forward_only_, prepared_->By(&mutable_op()));
  if (!FreesWeights()) weights_->weights().device_data();  // another operator may have freed them
}

DevicePtr WeightedOp::ForwardWeights() const {
  return FreesWeights() ? DevicePtr{} : weights_->weights().device_data();
}

WeightedConv::WeightedConv(Device* device, const ConvDescriptor& descriptor,
                           std::shared_ptr<OperatorWeights> weights)
    : WeightedOp(std::move(weights)), op_(Multiplexer::Convolution(device, descriptor)) {
  prepared_ = weights_->Prepared(*op_, op_->descriptor().key());
}

int64_t WeightedConv::products() const { return Products(op_->descriptor()); }

void WeightedConv::Run(const Operands& operands) {
  QuantArguments quant;
  ConvArguments arguments;
  arguments.x = operands.x;
  arguments.weights = ForwardWeights();
  arguments.prepared = prepared_->data();
  arguments.bias = weights_->bias();
  arguments.y = operands.y;
  arguments.epilogue = operands.epilogue;
  arguments.workspace = operands.workspace;
  if (weights_->quantized()) {
    quant = weights_->quant();
    arguments.quant = &quant;
  }
  op_->Forward(arguments);
}

ConvGradients WeightedConv::Gradients(DevicePtr workspace) const {
  ConvGradients gradients;
  gradients.weights = weights_->weights().device_data();
  gradients.prepared = prepared_->data();
  gradients.workspace = workspace;
  return gradients;
}

WeightedDeconv::WeightedDeconv(Device* device, const ConvDescriptor& descriptor,
                               const Epilogue& epilogue, std::shared_ptr<OperatorWeights> weights)
    : WeightedOp(std::move(weights)), op_(Multiplexer::Convolution(device, descriptor)) {
  prepared_ = weights_->Prepared(*op_, op_->descriptor().key());
  if (epilogue.empty()) return;
  const ConvDescriptor& d = op_->descriptor();
  bias_op_ = std::make_unique<BiasOp>(device, d.in, d.master(), d.batch, d.in_channels,
                                      d.geometry.input_count(), epilogue,
                                      weights_->has_bias() && d.backward_weights);
}

int64_t WeightedDeconv::workspace_bytes() const {
  return std::max(op_->workspace_bytes(), bias_op_ ? bias_op_->workspace_bytes() : 0);
}

int64_t WeightedDeconv::products() const { return Products(op_->descriptor()); }

void WeightedDeconv::Run(const Operands& operands) {
  ConvGradients transposed;
  transposed.weights = ForwardWeights();
  transposed.prepared = prepared_->data();
  transposed.y_diff = operands.x;
  transposed.x_diff = operands.y;
  transposed.workspace = operands.workspace;
  op_->BackwardData(transposed);
  if (bias_op_) {
    bias_op_->Forward(operands.y, weights_->bias(), operands.y, operands.epilogue);
  }
}

void WeightedDeconv::BackwardData(DevicePtr y_diff, DevicePtr x_diff, DevicePtr workspace) {
  ConvArguments transposed;
  transposed.x = y_diff;
  transposed.weights = weights_->weights().device_data();
  transposed.prepared = prepared_->data();
  transposed.y = x_diff;
  transposed.workspace = workspace;
  op_->Forward(transposed);
}

void WeightedDeconv::BackwardWeights(DevicePtr y_diff, DevicePtr x, DevicePtr w_diff,
                                     DevicePtr workspace) {
  ConvGradients gradients;
  gradients.x = y_diff;
  gradients.y_diff = x;
  gradients.w_diff = w_diff;
  gradients.workspace = workspace;
  op_->BackwardWeights(gradients);
}

void WeightedDeconv::BackwardBias(DevicePtr y_diff, DevicePtr b_diff, DevicePtr workspace) {
  bias_op_->Backward(y_diff, b_diff, workspace);
}

WeightedGemm::WeightedGemm(Device* device, const GemmDescriptor& descriptor,
                           std::shared_ptr<OperatorWeights> weights)
    : WeightedOp(std::move(weights)), op_(Multiplexer::Gemm(device, descriptor)) {
  prepared_ = weights_->Prepared(*op_, descriptor.key());
}

int64_t WeightedGemm::products() const {
  const GemmDescriptor& d = op_->descriptor();
  return d.m * d.n * d.k;
}

void WeightedGemm::Run(const Operands& operands) {
  QuantArguments quant;
  GemmArguments arguments;
  arguments.a = operands.x;
  arguments.b = ForwardWeights();
  arguments.prepared = prepared_->data();
  arguments.bias = weights_->bias();
  arguments.c = operands.y;
  arguments.epilogue = operands.epilogue;
  arguments.workspace = operands.workspace;
  if (weights_->quantized()) {
    quant = weights_->quant();
    arguments.quant = &quant;
  }
  op_->Run(arguments);
}

}  // namespace caffe

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

int64_t LibraryOp::parameter_bytes() const {
  const auto groups = static_cast<int64_t>(weights_->groups().size());
  return std::min(rows_, groups) * weights_->group_bytes();
}

void LibraryOp::SetWeights(JointWeights::Groups groups, Operator* op, const std::string& key,
                           int64_t rows) {
  weights_ = std::make_unique<JointWeights>(std::move(groups), op, key);
  rows_ = rows;
}

template <class Arguments>
Arguments LibraryOp::Common(const Operands& operands, QuantArguments* quant) const {
  Arguments arguments;
  arguments.prepared = weights_->prepared();
  arguments.bias = weights_->bias();
  arguments.epilogue = operands.epilogue;
  arguments.workspace = operands.workspace;
  if (weights_->groups().size() > 1) arguments.offsets = operands.offsets->device_data();
  if (weights_->quantized()) {
    *quant = weights_->quant();
    arguments.quant = quant;
  }
  return arguments;
}

WeightedConv::WeightedConv(Device* device, const ConvDescriptor& descriptor,
                           JointWeights::Groups weights)
    : op_(Multiplexer::Convolution(device, descriptor)) {
  SetWeights(std::move(weights), op_.get(), op_->descriptor().key(), descriptor.batch);
}

int64_t WeightedConv::products() const { return Products(op_->descriptor()); }

void WeightedConv::Run(const Operands& operands) {
  QuantArguments quant;
  auto arguments = Common<ConvArguments>(operands, &quant);
  arguments.x = operands.x;
  arguments.weights = weights().weights();
  arguments.y = operands.y;
  op_->Forward(arguments);
}

void WeightedConv::Backward(const Gradients& wanted, Workspace* workspace) {
  ConvGradients gradients;
  gradients.x = wanted.x;
  gradients.weights = one().weights().device_data();
  gradients.prepared = weights().prepared();
  gradients.y_diff = wanted.y_diff;
  gradients.x_diff = wanted.x_diff;
  gradients.w_diff = wanted.w_diff;
  gradients.b_diff = wanted.b_diff;
  const auto next = [&] {
    workspace->Next();
    gradients.workspace = workspace->Need(op_->workspace_bytes());
  };
  if (wanted.b_diff) {
    next();
    op_->BackwardBias(gradients);
  }
  if (wanted.w_diff) {
    next();
    op_->BackwardWeights(gradients);
  }
  if (wanted.x_diff) {
    next();
    op_->BackwardData(gradients);
  }
}

WeightedDeconv::WeightedDeconv(Device* device, const ConvDescriptor& descriptor,
                               const Epilogue& epilogue, JointWeights::Groups weights)
    : op_(Multiplexer::Convolution(device, descriptor)) {
  SetWeights(std::move(weights), op_.get(), op_->descriptor().key(), descriptor.batch);
  if (epilogue.empty()) return;
  const ConvDescriptor& d = op_->descriptor();
  bias_op_ = std::make_unique<BiasOp>(device, d.in, d.master(), d.batch, d.in_channels,
                                      d.geometry.input_count(), epilogue,
                                      one().has_bias() && d.backward_weights);
}

int64_t WeightedDeconv::workspace_bytes() const {
  return std::max(op_->workspace_bytes(), bias_op_ ? bias_op_->workspace_bytes() : 0);
}

int64_t WeightedDeconv::products() const { return Products(op_->descriptor()); }

void WeightedDeconv::Run(const Operands& operands) {
  ConvGradients transposed;
  transposed.weights = weights().weights();
  transposed.prepared = weights().prepared();
  transposed.y_diff = operands.x;
  transposed.x_diff = operands.y;
  transposed.workspace = operands.workspace;
  op_->BackwardData(transposed);
  if (bias_op_) {
    bias_op_->Forward(operands.y, weights().bias(), operands.y, operands.epilogue);
  }
}

void WeightedDeconv::Backward(const Gradients& wanted, Workspace* workspace) {
  const DevicePtr scratch = workspace->Need(workspace_bytes());
  if (wanted.b_diff) bias_op_->Backward(wanted.y_diff, wanted.b_diff, scratch);
  if (wanted.w_diff) {
    ConvGradients gradients;
    gradients.x = wanted.y_diff;
    gradients.y_diff = wanted.x;
    gradients.w_diff = wanted.w_diff;
    gradients.workspace = scratch;
    op_->BackwardWeights(gradients);
  }
  if (wanted.x_diff) {
    ConvArguments transposed;
    transposed.x = wanted.y_diff;
    transposed.weights = one().weights().device_data();
    transposed.prepared = weights().prepared();
    transposed.y = wanted.x_diff;
    transposed.workspace = scratch;
    op_->Forward(transposed);
  }
}

WeightedGemm::WeightedGemm(Device* device, const GemmDescriptor& d, JointWeights::Groups groups,
                           std::optional<GemmDescriptor::Weights> backward)
    : op_(Multiplexer::Gemm(device, d)) {
  SetWeights(std::move(groups), op_.get(), d.key(), d.m);
  if (!backward) return;
  GemmDescriptor data;
  data.m = d.m;
  data.n = d.k;
  data.k = d.n;
  data.trans_b = !d.trans_b;
  data.in = data.out = d.in;
  data.constant = *backward;
  data_op_ = Multiplexer::Gemm(device, data);
  data_weights_ = one().Prepared(*data_op_, data.key());
  GemmDescriptor weights;
  weights.trans_a = true;
  weights.m = d.trans_b ? d.n : d.k;
  weights.n = d.trans_b ? d.k : d.n;
  weights.k = d.m;
  weights.in = d.in;
  weights.out = d.epilogue.bias_type;
  weights_op_ = Multiplexer::Gemm(device, weights);
  if (!one().has_bias()) return;
  bias_op_ =
      std::make_unique<BiasOp>(device, d.in, d.epilogue.bias_type, d.m, d.n, 1, std::nullopt, true);
}

int64_t WeightedGemm::products() const {
  const GemmDescriptor& d = op_->descriptor();
  return d.m * d.n * d.k;
}

int64_t WeightedGemm::workspace_bytes() const {
  int64_t bytes = op_->workspace_bytes();
  for (const auto* op : {data_op_.get(), weights_op_.get()}) {
    if (op) bytes = std::max(bytes, op->workspace_bytes());
  }
  return bytes;
}

void WeightedGemm::CountMemory(WorkMemory* memory) const {
  LibraryOp::CountMemory(memory);
  if (data_op_) memory->Add(data_weights_, data_op_->prepared_bytes());
}

void WeightedGemm::Run(const Operands& operands) {
  QuantArguments quant;
  auto arguments = Common<GemmArguments>(operands, &quant);
  arguments.a = operands.x;
  arguments.b = weights().weights();
  arguments.c = operands.y;
  op_->Run(arguments);
}

void WeightedGemm::Backward(const Gradients& wanted, Workspace* workspace) {
  if (wanted.w_diff) {
    const bool transposed = op_->descriptor().trans_b;
    GemmArguments product{transposed ? wanted.y_diff : wanted.x,
                          transposed ? wanted.x : wanted.y_diff, wanted.w_diff};
    product.beta = 1;
    product.workspace = workspace->Need(weights_op_->workspace_bytes());
    weights_op_->Run(product);
  }
  if (wanted.b_diff) bias_op_->Backward(wanted.y_diff, wanted.b_diff, {});
  if (wanted.x_diff) {
    GemmArguments product{wanted.y_diff, one().weights().device_data(), wanted.x_diff};
    if (Derived* const prepared = data_weights_->By(data_op_.get())) {
      prepared->Refresh();
      product.prepared = data_weights_->data();
    }
    workspace->Next();
    product.workspace = workspace->Need(data_op_->workspace_bytes());
    data_op_->Run(product);
  }
}

}  // namespace caffe

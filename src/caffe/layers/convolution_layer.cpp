#include "caffe/layers/convolution_layer.hpp"

#include "caffe.pb.h"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/library/multiplexer.hpp"
#include "caffe/memory/workspace.hpp"

namespace caffe {

void Convolution::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const ConvolutionParameter& parameter = layer_param().convolution_param();
  setup_ = ConvSetup(Where(), parameter, bottom, top);
  AddParameter(0, setup_.WeightShape(setup_.outputs, setup_.channels / setup_.group),
               parameter.weight_filler());
  if (setup_.has_bias) AddParameter(1, {setup_.outputs}, parameter.bias_filler());
  input_.clear();  // drop operators built for the previous device
  if (types().compute.is_quantized()) {
    QuantizedParameters::Source source{blobs_[0].get(),
                                       setup_.has_bias ? blobs_[1].get() : nullptr};
    source.channels = setup_.outputs;
    source.ReadQuantizer(layer_param());
    quantized_.clear();
    for (size_t i = 0; i < bottom.size(); ++i) {
      quantized_.emplace_back();
      quantized_[i].parameters = QuantizedParameters(source, types().compute, device());
    }
    return;
  }
  weights_ = ParameterCopy(blobs_[0].get(), types().compute, device());
  if (setup_.has_bias) bias_ = ParameterCopy(blobs_[1].get(), master_type(), device());
}

void Convolution::Reshape(const BlobVec& bottom, const BlobVec& top) {
  setup_.CheckBottoms(Where(), bottom);
  const Shape& input = bottom[0]->shape();
  const ConvWindow& window = setup_.window;
  Shape output = setup_.OutputStart(input);
  for (int i = 0; i < setup_.spatial_axes(); ++i) {
    const int64_t extent = input[setup_.axis + 1 + i], padded = extent + 2 * window.pad[i];
    CAFFE_CHECK(padded - window.extent(i) > -window.stride[i], Where(), ": the window of ",
                window.extent(i), " on spatial axis ", i, " is larger than the input of ", extent,
                " padded by ", window.pad[i], "; with stride ", window.stride[i],
                " no output is left");
    // Rounded towards 0: see ConvGeometry.
    output.push_back((padded - window.extent(i)) / window.stride[i] + 1);
  }
  for (BlobBase* blob : top) blob->Reshape(output);
  if (input == input_) return;
  input_ = input;
  MakeOperation(phase() == TRAIN);
}

void Convolution::MakeOperation(bool backward) {
  operation_.reset();
  prepared_ = PreparedWeights();
  for (Quantized& part : quantized_) {
    part.operation.reset();
    part.prepared = PreparedWeights();
  }
  if (ShapeCount(input_) == 0) return;
  ConvDescriptor d;
  d.batch = ShapeCount(input_, 0, setup_.axis);
  d.in_channels = setup_.channels;
  d.out_channels = setup_.outputs;
  d.group = setup_.group;
  d.in = d.out = types().compute;
  const ConvWindow& window = setup_.window;
  if (setup_.spatial_axes() == 0) {
    // No spatial axis is one of a single position.
    d.geometry.input = d.geometry.kernel = {1};
  } else {
    d.geometry = {Shape(input_.begin() + setup_.axis + 1, input_.end()), window.kernel,
                  window.stride, window.pad, window.dilation};
  }
  const bool quantized = types().compute.is_quantized();
  // Of quantized types there always is one: it holds the zero point of the bottom.
  if (setup_.has_bias || quantized) d.epilogue.bias = Epilogue::Bias::kPerRow;
  d.epilogue.bias_type = master_type();
  if (fused_relu_) d.epilogue.stages = {kPlainReLU};
  d.backward_data = d.backward_weights = backward && !quantized;
  try {
    for (Quantized& part : quantized_) {
      part.operation = Multiplexer::Convolution(device(), d);
      part.prepared = PreparedWeights(part.operation.get(), &part.parameters.codes(), d.key());
      workspace().Need(part.operation->workspace_bytes());
    }
    if (quantized) return;
    operation_ = Multiplexer::Convolution(device(), d);
    prepared_ = PreparedWeights(operation_.get(), &weights_.blob(), d.key());
    workspace().Need(operation_->workspace_bytes());
  } catch (const Error& error) {
    CAFFE_THROW(Where(), ": ", error.what());
  }
}

void Convolution::PrepareParameters() {
  for (size_t i = 0; i < quantized_.size(); ++i) {
    Quantized& part = quantized_[i];
    const QuantRange in = BottomRange(static_cast<int>(i)), out = TopRange(static_cast<int>(i));
    part.parameters.SetRanges(in, out);
    try {
      part.parameters.Refresh();
    } catch (const Error& error) {
      CAFFE_THROW(Where(), ": ", error.what());
    }
    part.prepared.Refresh();
  }
  if (!quantized_.empty()) return;
  weights_.Refresh();
  prepared_.Refresh();
  if (setup_.has_bias) bias_.Refresh();
}

void Convolution::Forward(const BlobVec& bottom, const BlobVec& top) {
  ConvArguments arguments;
  for (size_t i = 0; i < quantized_.size(); ++i) {
    const Quantized& part = quantized_[i];
    if (!part.operation) continue;
    const QuantArguments quant = part.parameters.arguments();
    arguments.x = bottom[i]->device_data();
    arguments.weights = part.parameters.codes().device_data();
    arguments.prepared = part.prepared.data();
    arguments.y = top[i]->mutable_device_data();
    arguments.quant = &quant;
    arguments.workspace = workspace().Need(part.operation->workspace_bytes());
    part.operation->Forward(arguments);
  }
  if (!operation_) return;
  arguments.weights = weights_.data();
  arguments.prepared = prepared_.data();
  if (setup_.has_bias) arguments.bias = bias_.data();
  arguments.workspace = workspace().Need(operation_->workspace_bytes());
  for (size_t i = 0; i < bottom.size(); ++i) {
    arguments.x = bottom[i]->device_data();
    arguments.y = top[i]->mutable_device_data();
    operation_->Forward(arguments);
  }
}

void Convolution::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                           const BlobVec& bottom) {
  if (types().compute.is_quantized()) return LayerBase::Backward(top, propagate_down, bottom);
  if (!operation_) return;
  if (!operation_->descriptor().backward_data) {
    MakeOperation(true);
    prepared_.Refresh();
  }
  ConvGradients gradients;
  gradients.weights = weights_.data();
  gradients.prepared = prepared_.data();
  gradients.workspace = workspace().Need(operation_->workspace_bytes());
  for (size_t i = 0; i < top.size(); ++i) {
    gradients.y_diff = top[i]->device_diff();
    if (setup_.has_bias && param_propagate_down(1)) {
      gradients.b_diff = blobs_[1]->mutable_device_diff();
      operation_->BackwardBias(gradients);
    }
    if (param_propagate_down(0)) {
      gradients.x = bottom[i]->device_data();
      gradients.w_diff = blobs_[0]->mutable_device_diff();
      operation_->BackwardWeights(gradients);
    }
    if (propagate_down[i]) {
      gradients.x_diff = bottom[i]->mutable_device_diff();
      operation_->BackwardData(gradients);
    }
  }
}

bool Convolution::CanFuseReLU() const { return phase() == TEST; }

void Convolution::SetFusedReLU(bool fused) {
  CAFFE_CHECK(!fused || CanFuseReLU(), Where(), ": a ReLU is fused in the TEST phase only");
  if (fused == fused_relu_) return;
  fused_relu_ = fused;
  if (!quantized_.empty()) {
    MakeOperation(false);
  } else if (operation_) {
    MakeOperation(operation_->descriptor().backward_data);
  }
}

LayerFacts Convolution::Facts() const {
  LayerFacts facts;
  LayerFacts::Weighted weighted;
  weighted.axis = setup_.axis;
  weighted.channels = setup_.outputs;
  weighted.has_bias = setup_.has_bias;
  weighted.folds = weighted.sums = weighted.activates = true;
  if (!quantized_.empty()) {
    weighted.code_scales = [this] { return quantized_[0].parameters.scales(); };
  }
  facts.weighted = std::move(weighted);
  return facts;
}

void RegisterConvolutionLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.max_bottom = traits.max_top = -1;
  traits.types = BuiltInTypes();
  traits.backward_reads = Always({{BackwardReads::kAll}, {}});
  traits.summary = "cross-correlation over any number of spatial axes, with groups and dilation";
  registry.Add<ConvolutionLayer>("Convolution", traits);
}

}  // namespace caffe

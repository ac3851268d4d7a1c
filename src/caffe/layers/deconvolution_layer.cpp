#include "caffe/layers/deconvolution_layer.hpp"

#include <algorithm>

#include "caffe.pb.h"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/library/multiplexer.hpp"
#include "caffe/memory/workspace.hpp"

namespace caffe {

void Deconvolution::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const ConvolutionParameter& parameter = layer_param().convolution_param();
  setup_ = ConvSetup(Where(), parameter, bottom, top);
  AddParameter(0, setup_.WeightShape(setup_.channels, setup_.outputs / setup_.group),
               parameter.weight_filler());
  weights_ = ParameterCopy(blobs_[0].get(), types().compute, device());
  input_.clear();  // drop operators built for the previous device
  if (setup_.has_bias) {
    AddParameter(1, {setup_.outputs}, parameter.bias_filler());
    bias_ = ParameterCopy(blobs_[1].get(), master_type(), device());
  }
}

void Deconvolution::Reshape(const BlobVec& bottom, const BlobVec& top) {
  setup_.CheckBottoms(Where(), bottom);
  const Shape& input = bottom[0]->shape();
  const ConvWindow& window = setup_.window;
  Shape output = setup_.OutputStart(input);
  for (int i = 0; i < setup_.spatial_axes(); ++i) {
    const int64_t extent = input[setup_.axis + 1 + i];
    const int64_t full = window.stride[i] * (extent - 1) + window.extent(i);
    CAFFE_CHECK(full > 2 * window.pad[i], Where(), ": the pad of ", window.pad[i],
                " on spatial axis ", i, " leaves nothing of the ", full, " elements that ", extent,
                " make");
    output.push_back(full - 2 * window.pad[i]);
  }
  for (BlobBase* blob : top) blob->Reshape(output);
  if (input == input_) return;
  input_ = input;
  output_ = output;
  MakeOperation(phase() == TRAIN);
}

void Deconvolution::MakeOperation(bool backward) {
  operation_.reset();
  prepared_ = PreparedWeights();
  bias_operation_.reset();
  if (ShapeCount(input_) == 0) return;
  ConvDescriptor d;
  d.batch = ShapeCount(input_, 0, setup_.axis);
  d.in_channels = setup_.outputs;
  d.out_channels = setup_.channels;
  d.group = setup_.group;
  d.in = d.out = types().compute;
  const ConvWindow& window = setup_.window;
  if (setup_.spatial_axes() == 0) {
    // No spatial axis is one of a single position.
    d.geometry.input = d.geometry.kernel = {1};
  } else {
    d.geometry = {Shape(output_.begin() + setup_.axis + 1, output_.end()), window.kernel,
                  window.stride, window.pad, window.dilation};
  }
  d.epilogue.bias_type = master_type();
  d.forward = d.backward_weights = backward;
  d.backward_data = true;
  try {
    operation_ = Multiplexer::Convolution(device(), d);
    prepared_ = PreparedWeights(operation_.get(), &weights_.blob(), d.key());
    workspace().Need(operation_->workspace_bytes());
  } catch (const Error& error) {
    CAFFE_THROW(Where(), ": ", error.what());
  }
  if (setup_.has_bias || fused_relu_) {
    bias_operation_ =
        std::make_unique<BiasOp>(device(), types().compute, master_type(), d.batch, setup_.outputs,
                                 d.geometry.input_count(), true, setup_.has_bias && backward);
    workspace().Need(bias_operation_->workspace_bytes());
  }
}

void Deconvolution::PrepareParameters() {
  weights_.Refresh();
  prepared_.Refresh();
  if (setup_.has_bias) bias_.Refresh();
}

void Deconvolution::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (!operation_) return;
  const DevicePtr bias = setup_.has_bias ? bias_.data() : DevicePtr{};
  const Activation activation = fused_relu_ ? kPlainReLU : Activation{};
  ConvGradients transposed;
  transposed.weights = weights_.data();
  transposed.prepared = prepared_.data();
  transposed.workspace = workspace().Need(operation_->workspace_bytes());
  for (size_t i = 0; i < bottom.size(); ++i) {
    const DevicePtr y = top[i]->mutable_device_data();
    transposed.y_diff = bottom[i]->device_data();
    transposed.x_diff = y;
    operation_->BackwardData(transposed);
    if (bias_operation_) bias_operation_->Forward(y, bias, y, activation);
  }
}

void Deconvolution::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                             const BlobVec& bottom) {
  if (!operation_) return;
  if (!operation_->descriptor().backward_weights) {
    MakeOperation(true);
    prepared_.Refresh();
  }
  const DevicePtr scratch = workspace().Need(std::max(
      operation_->workspace_bytes(), bias_operation_ ? bias_operation_->workspace_bytes() : 0));
  for (size_t i = 0; i < top.size(); ++i) {
    const DevicePtr y_diff = top[i]->device_diff();
    if (setup_.has_bias && param_propagate_down(1)) {
      bias_operation_->Backward(y_diff, blobs_[1]->mutable_device_diff(), scratch);
    }
    if (param_propagate_down(0)) {
      ConvGradients gradients;
      gradients.x = y_diff;
      gradients.y_diff = bottom[i]->device_data();
      gradients.w_diff = blobs_[0]->mutable_device_diff();
      gradients.workspace = scratch;
      operation_->BackwardWeights(gradients);
    }
    if (propagate_down[i]) {
      ConvArguments transposed;
      transposed.x = y_diff;
      transposed.weights = weights_.data();
      transposed.prepared = prepared_.data();
      transposed.y = bottom[i]->mutable_device_diff();
      transposed.workspace = scratch;
      operation_->Forward(transposed);
    }
  }
}

bool Deconvolution::CanFuseReLU() const { return phase() == TEST; }

void Deconvolution::SetFusedReLU(bool fused) {
  CAFFE_CHECK(!fused || CanFuseReLU(), Where(), ": a ReLU is fused in the TEST phase only");
  if (fused == fused_relu_) return;
  fused_relu_ = fused;
  if (operation_) MakeOperation(operation_->descriptor().backward_weights);
}

LayerFacts Deconvolution::Facts() const {
  LayerFacts facts;
  LayerFacts::Weighted weighted;
  weighted.axis = setup_.axis;
  weighted.channels = setup_.outputs;
  weighted.group = setup_.group;
  weighted.outer = setup_.channels / setup_.group;
  weighted.has_bias = setup_.has_bias;
  weighted.activates = true;
  facts.weighted = std::move(weighted);
  return facts;
}

void RegisterDeconvolutionLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.max_bottom = traits.max_top = -1;
  traits.backward_reads = Always({{BackwardReads::kAll}, {}});
  traits.summary = "the transpose of a convolution, with groups and dilation";
  registry.Add<DeconvolutionLayer>("Deconvolution", traits);
}

}  // namespace caffe

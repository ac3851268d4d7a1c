#include "caffe/layers/deconvolution_layer.hpp"

#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/library/multiplexer.hpp"

namespace caffe {

void Deconvolution::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const ConvolutionParameter& parameter = layer_param().convolution_param();
  CAFFE_CHECK(bottom.size() == top.size(), Where(), ": has ", bottom.size(), " bottoms and ",
              top.size(), " tops; every bottom needs a top");
  CAFFE_CHECK(parameter.fuse_type() == ConvolutionParameter::UNFUSED, Where(), ": fuse_type ",
              ConvolutionParameter::FuseType_Name(parameter.fuse_type()),
              " is not supported; fusion needs no parameter here");
  axis_ = bottom[0]->CanonicalAxisIndex(parameter.axis());
  channels_ = bottom[0]->shape(axis_);
  outputs_ = parameter.num_output();
  group_ = parameter.group();
  has_bias_ = parameter.bias_term();
  CAFFE_CHECK(outputs_ > 0, Where(), ": num_output must be given and positive");
  CAFFE_CHECK(group_ > 0 && channels_ % group_ == 0, Where(), ": ", channels_,
              " input channels are not divisible by group ", group_);
  CAFFE_CHECK(outputs_ % group_ == 0, Where(), ": num_output ", outputs_,
              " is not divisible by group ", group_);
  window_ = ConvWindow(Where(), parameter, bottom[0]->num_axes() - axis_ - 1);
  Shape shape{channels_, outputs_ / group_};
  shape.insert(shape.end(), window_.kernel.begin(), window_.kernel.end());
  AddParameter(0, shape, parameter.weight_filler());
  weights_ = ParameterCopy(blobs_[0].get(), types().compute, device());
  input_.clear();  // operators of another device are no use
  if (has_bias_) {
    AddParameter(1, {outputs_}, parameter.bias_filler());
    bias_ = ParameterCopy(blobs_[1].get(), master_type(), device());
  }
}

void Deconvolution::Reshape(const BlobVec& bottom, const BlobVec& top) {
  const Shape& input = bottom[0]->shape();
  const size_t spatial = axis_ + 1;
  CAFFE_CHECK(input.size() == spatial + window_.kernel.size() && input[axis_] == channels_, Where(),
              ": was made for ", channels_, " channels on axis ", axis_, " and ",
              window_.kernel.size(), " spatial axes, the bottom has shape ",
              bottom[0]->shape_string());
  Shape output(input.begin(), input.begin() + axis_);
  output.push_back(outputs_);
  for (size_t i = 0; i < window_.kernel.size(); ++i) {
    const int axis = static_cast<int>(i);
    const int64_t full = window_.stride[i] * (input[spatial + i] - 1) + window_.extent(axis);
    CAFFE_CHECK(full > 2 * window_.pad[i], Where(), ": the pad of ", window_.pad[i],
                " on spatial axis ", i, " leaves nothing of the ", full, " elements that ",
                input[spatial + i], " make");
    output.push_back(full - 2 * window_.pad[i]);
  }
  for (size_t i = 0; i < bottom.size(); ++i) {
    CAFFE_CHECK(bottom[i]->shape() == input, Where(), ": all bottoms must have one shape, bottom ",
                i, " has ", bottom[i]->shape_string(), ", bottom 0 ", bottom[0]->shape_string());
    top[i]->Reshape(output);
  }
  if (input == input_) return;
  input_ = input;
  output_ = output;
  MakeOperation(phase() == TRAIN);
}

void Deconvolution::MakeOperation(bool backward) {
  operation_.reset();
  bias_operation_.reset();
  if (ShapeCount(input_) == 0) return;
  ConvDescriptor d;
  d.batch = ShapeCount(input_, 0, axis_);
  d.in_channels = outputs_;
  d.out_channels = channels_;
  d.group = group_;
  d.in = d.out = types().compute;
  if (window_.kernel.empty()) {
    // No spatial axis is one of a single position.
    d.geometry.input = d.geometry.kernel = {1};
  } else {
    d.geometry = {Shape(output_.begin() + axis_ + 1, output_.end()), window_.kernel, window_.stride,
                  window_.pad, window_.dilation};
  }
  d.epilogue.bias_type = master_type();
  d.forward = d.backward_weights = backward;
  d.backward_data = true;
  try {
    operation_ = Multiplexer::Convolution(device(), d);
  } catch (const Error& error) {
    CAFFE_THROW(Where(), ": ", error.what());
  }
  if (has_bias_ || fused_relu_) {
    bias_operation_ =
        std::make_unique<BiasOp>(device(), types().compute, master_type(), d.batch, outputs_,
                                 d.geometry.input_count(), true, has_bias_ && backward);
  }
}

void Deconvolution::PrepareParameters() {
  weights_.Refresh();
  if (has_bias_) bias_.Refresh();
}

void Deconvolution::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (!operation_) return;
  const DevicePtr bias = has_bias_ ? bias_.data() : DevicePtr{};
  const auto activation = fused_relu_ ? Epilogue::Activation::kRelu : Epilogue::Activation::kNone;
  for (size_t i = 0; i < bottom.size(); ++i) {
    const DevicePtr y = top[i]->mutable_device_data();
    operation_->BackwardData(bottom[i]->device_data(), weights_.data(), y);
    if (bias_operation_) bias_operation_->Forward(y, bias, y, activation);
  }
}

void Deconvolution::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                             const BlobVec& bottom) {
  if (!operation_) return;
  if (!operation_->descriptor().backward_weights) MakeOperation(true);
  for (size_t i = 0; i < top.size(); ++i) {
    const DevicePtr y_diff = top[i]->device_diff();
    if (has_bias_ && param_propagate_down(1)) {
      bias_operation_->Backward(y_diff, blobs_[1]->mutable_device_diff());
    }
    if (param_propagate_down(0)) {
      operation_->BackwardWeights(y_diff, bottom[i]->device_data(),
                                  blobs_[0]->mutable_device_diff());
    }
    if (propagate_down[i]) {
      operation_->Forward(y_diff, weights_.data(), {}, bottom[i]->mutable_device_diff());
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

void RegisterDeconvolutionLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.max_bottom = traits.max_top = -1;
  traits.summary = "the transpose of a convolution, with groups and dilation";
  registry.Add<DeconvolutionLayer>("Deconvolution", traits);
}

}  // namespace caffe

#include "caffe/layers/convolution_layer.hpp"

#include "caffe.pb.h"
#include "caffe/layer/conv_window.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/library/multiplexer.hpp"

namespace caffe {

void Convolution::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const ConvolutionParameter& parameter = layer_param().convolution_param();
  CAFFE_CHECK(bottom.size() == top.size(), Where(), ": has ", bottom.size(), " bottoms and ",
              top.size(), " tops; every bottom needs a top");
  CAFFE_CHECK(parameter.fuse_type() == ConvolutionParameter::UNFUSED, Where(), ": fuse_type ",
              ConvolutionParameter::FuseType_Name(parameter.fuse_type()),
              " is not supported; fusion needs no parameter here");
  axis_ = bottom[0]->CanonicalAxisIndex(parameter.axis());
  const int axes = bottom[0]->num_axes() - axis_ - 1;
  channels_ = bottom[0]->shape(axis_);
  outputs_ = parameter.num_output();
  group_ = parameter.group();
  has_bias_ = parameter.bias_term();
  CAFFE_CHECK(outputs_ > 0, Where(), ": num_output must be given and positive");
  CAFFE_CHECK(group_ > 0 && channels_ % group_ == 0, Where(), ": ", channels_,
              " input channels are not divisible by group ", group_);
  CAFFE_CHECK(outputs_ % group_ == 0, Where(), ": num_output ", outputs_,
              " is not divisible by group ", group_);
  const ConvWindow window(Where(), parameter, axes);
  kernel_ = window.kernel;
  stride_ = window.stride;
  pad_ = window.pad;
  dilation_ = window.dilation;
  Shape shape{outputs_, channels_ / group_};
  shape.insert(shape.end(), kernel_.begin(), kernel_.end());
  AddParameter(0, shape, parameter.weight_filler());
  if (has_bias_) AddParameter(1, {outputs_}, parameter.bias_filler());
  input_.clear();  // operators of another device are no use
  if (types().compute.is_quantized()) {
    QuantizedParameters::Source source{blobs_[0].get(), has_bias_ ? blobs_[1].get() : nullptr};
    source.channels = outputs_;
    source.per_tensor =
        layer_param().blobs_quantizer_size() > 0 && layer_param().blobs_quantizer(0).per_tensor();
    quantized_.clear();
    for (size_t i = 0; i < bottom.size(); ++i) {
      quantized_.emplace_back();
      quantized_[i].parameters = QuantizedParameters(source, types().compute, device());
    }
    return;
  }
  weights_ = ParameterCopy(blobs_[0].get(), types().compute, device());
  if (has_bias_) bias_ = ParameterCopy(blobs_[1].get(), master_type(), device());
}

void Convolution::Reshape(const BlobVec& bottom, const BlobVec& top) {
  const Shape& input = bottom[0]->shape();
  const size_t spatial = axis_ + 1;
  CAFFE_CHECK(input.size() == spatial + kernel_.size() && input[axis_] == channels_, Where(),
              ": was made for ", channels_, " channels on axis ", axis_, " and ", kernel_.size(),
              " spatial axes, the bottom has shape ", bottom[0]->shape_string());
  Shape output(input.begin(), input.begin() + axis_);
  output.push_back(outputs_);
  for (size_t i = 0; i < kernel_.size(); ++i) {
    const int64_t window = dilation_[i] * (kernel_[i] - 1) + 1;
    const int64_t padded = input[spatial + i] + 2 * pad_[i];
    CAFFE_CHECK(padded >= window, Where(), ": the window of ", window, " on spatial axis ", i,
                " is larger than the input of ", input[spatial + i], " padded by ", pad_[i]);
    output.push_back((padded - window) / stride_[i] + 1);
  }
  for (size_t i = 0; i < bottom.size(); ++i) {
    CAFFE_CHECK(bottom[i]->shape() == input, Where(), ": all bottoms must have one shape, bottom ",
                i, " has ", bottom[i]->shape_string(), ", bottom 0 ", bottom[0]->shape_string());
    top[i]->Reshape(output);
  }
  if (input == input_) return;
  input_ = input;
  MakeOperation(phase() == TRAIN);
}

void Convolution::MakeOperation(bool backward) {
  operation_.reset();
  for (Quantized& quantized : quantized_) quantized.operation.reset();
  if (ShapeCount(input_) == 0) return;
  ConvDescriptor d;
  d.batch = ShapeCount(input_, 0, axis_);
  d.in_channels = channels_;
  d.out_channels = outputs_;
  d.group = group_;
  d.in = d.out = types().compute;
  if (kernel_.empty()) {
    // No spatial axis is one of a single position.
    d.geometry.input = d.geometry.kernel = {1};
  } else {
    d.geometry = {Shape(input_.begin() + axis_ + 1, input_.end()), kernel_, stride_, pad_,
                  dilation_};
  }
  const bool quantized = types().compute.is_quantized();
  // Of quantized types there always is one: it holds the zero point of the bottom.
  if (has_bias_ || quantized) d.epilogue.bias = Epilogue::Bias::kPerRow;
  d.epilogue.bias_type = master_type();
  if (fused_relu_) d.epilogue.activation = Epilogue::Activation::kRelu;
  d.backward_data = d.backward_weights = backward && !quantized;
  try {
    for (Quantized& part : quantized_) {
      part.operation = Multiplexer::Convolution(device(), d);
      part.stale = true;
    }
    if (!quantized) operation_ = Multiplexer::Convolution(device(), d);
  } catch (const Error& error) {
    CAFFE_THROW(Where(), ": ", error.what());
  }
}

void Convolution::PrepareParameters() {
  for (size_t i = 0; i < quantized_.size(); ++i) {
    Quantized& part = quantized_[i];
    const QuantRange& in = BottomRange(static_cast<int>(i));
    const QuantRange& out = TopRange(static_cast<int>(i));
    try {
      if (part.parameters.Refresh(in, out)) part.stale = true;
    } catch (const Error& error) {
      CAFFE_THROW(Where(), ": ", error.what());
    }
    if (!part.operation || !part.stale) continue;
    part.operation->SetWeights(part.parameters.weights());
    part.stale = false;
  }
  if (!quantized_.empty()) return;
  weights_.Refresh();
  if (has_bias_) bias_.Refresh();
}

void Convolution::Forward(const BlobVec& bottom, const BlobVec& top) {
  for (size_t i = 0; i < quantized_.size(); ++i) {
    if (!quantized_[i].operation) continue;
    quantized_[i].operation->ForwardQuantized(bottom[i]->device_data(),
                                              top[i]->mutable_device_data(),
                                              quantized_[i].parameters.arguments());
  }
  if (!operation_) return;
  const DevicePtr bias = has_bias_ ? bias_.data() : DevicePtr{};
  for (size_t i = 0; i < bottom.size(); ++i) {
    operation_->Forward(bottom[i]->device_data(), weights_.data(), bias,
                        top[i]->mutable_device_data());
  }
}

void Convolution::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                           const BlobVec& bottom) {
  if (types().compute.is_quantized()) return LayerBase::Backward(top, propagate_down, bottom);
  if (!operation_) return;
  if (!operation_->descriptor().backward_data) MakeOperation(true);
  for (size_t i = 0; i < top.size(); ++i) {
    const DevicePtr y_diff = top[i]->device_diff();
    if (has_bias_ && param_propagate_down(1)) {
      operation_->BackwardBias(y_diff, blobs_[1]->mutable_device_diff());
    }
    if (param_propagate_down(0)) {
      operation_->BackwardWeights(bottom[i]->device_data(), y_diff,
                                  blobs_[0]->mutable_device_diff());
    }
    if (propagate_down[i]) {
      operation_->BackwardData(y_diff, weights_.data(), bottom[i]->mutable_device_diff());
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

std::vector<double> Convolution::WeightScales() const {
  return quantized_.empty() ? std::vector<double>() : quantized_[0].parameters.scales();
}

void RegisterConvolutionLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.max_bottom = traits.max_top = -1;
  traits.types = BuiltInTypes();
  traits.summary = "cross-correlation over any number of spatial axes, with groups and dilation";
  registry.Add<ConvolutionLayer>("Convolution", traits);
}

}  // namespace caffe

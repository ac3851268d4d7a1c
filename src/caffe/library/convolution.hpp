#pragma once

#include <cstdint>
#include <string>

#include "caffe/core/data_type.hpp"
#include "caffe/core/layout.hpp"
#include "caffe/device/device_ptr.hpp"
#include "caffe/library/conv_geometry.hpp"
#include "caffe/library/epilogue.hpp"
#include "caffe/library/operator.hpp"
#include "caffe/library/quant_arguments.hpp"

namespace caffe {

// A convolution of x [batch, in_channels, input…] with weights [out_channels, in_channels / group,
// kernel…] to y [batch, out_channels, output…]. Weights have C order, x and y their layouts. A
// deconvolution is the same object with x and y exchanged: its forward pass is BackwardData.
struct ConvDescriptor {
  ConvGeometry geometry;
  int64_t batch = 1, in_channels = 0, out_channels = 0, group = 1;
  // Types of x and weights (in), and of y (out): the pairs listed in GemmDescriptor. Backward needs
  // in = out.
  DataType in = kFloat, out = kFloat;
  // Gradients have the layouts of their data, and the residual of the epilogue has that of y.
  Layout x_layout = Layout::kNCHW, y_layout = Layout::kNCHW;
  // The elements from one position of a y in kNHWC to the next, if y is a part of the channels of a
  // larger array; 0: out_channels. Then there is only a forward pass, without a residual.
  int64_t y_pitch = 0;
  // 0, or groups of items that have weights, bias, slopes and factors of codes of their own: arrays
  // of all groups, one after the other, and ConvArguments::offsets. Then there is only a forward
  // pass. Prepare makes the weights of one group.
  int64_t row_groups = 0;
  // As in GemmDescriptor: y are sums of products.
  bool sums = false;
  // A bias has out_channels elements; every kind except kNone means one per channel.
  Epilogue epilogue;
  // Quantized types have a forward pass only, and always a bias.
  // The passes to prepare; the gradient of the bias belongs to that of the weights.
  bool forward = true, backward_data = false, backward_weights = false;
  // The largest workspace in bytes; 0: the library decides.
  int64_t workspace_limit = 0;

  // The type of weight and bias gradients: double for double, else float.
  DataType master() const { return in == kDouble ? kDouble : kFloat; }
  bool quantized() const { return in.is_quantized(); }
  // Bytes of an element of y.
  int64_t result_bytes() const {
    return static_cast<int64_t>(sums ? sizeof(int32_t) : out.bytes());
  }
  bool has_private_layout() const { return x_layout != Layout::kNCHW || y_layout != Layout::kNCHW; }
  int64_t y_row() const { return y_pitch ? y_pitch : out_channels; }
  // The number of products in a sum.
  int64_t depth() const { return in_channels / group * geometry.kernel_count(); }
  int64_t weight_count() const {
    return out_channels * (in_channels / group) * geometry.kernel_count();
  }
  // "half 8x3x227x227 -> 96 11x11/4 group 1"
  std::string name() const;
  // All fields, unlike name().
  std::string key() const;
  // Throws on channels that group does not divide and on unsupported types; normalizes geometry.
  void Normalize();
};

// The operands of a forward pass.
struct ConvArguments {
  DevicePtr x;
  DevicePtr weights,
      prepared;    // the result of Prepare; null if there is nothing to prepare
  DevicePtr bias;  // null if the epilogue has none, and for quantized types
  DevicePtr y;
  EpilogueOperands epilogue = {};
  const QuantArguments* quant = nullptr;  // for quantized types, and for these only
  DevicePtr workspace = {};
  // For row_groups: f32 [row_groups + 1] on the device, the first item of each group. The first one
  // is 0, and items from the last one on belong to the last group.
  DevicePtr offsets = {};
};

// The operands of the backward passes; each pass uses those that it reads and writes.
struct ConvGradients {
  DevicePtr x;
  DevicePtr weights, prepared;
  DevicePtr y_diff;
  DevicePtr x_diff = {};
  DevicePtr w_diff = {}, b_diff = {};  // of type master()
  DevicePtr workspace = {};
};

// A convolution prepared for one descriptor on one device. Results repeat bit by bit for the same
// device and number of threads. A pass that the descriptor does not request throws.
class ConvOp : public Operator {
 public:
  // y = epilogue(conv(x, weights) + bias). The padding of quantized types holds quant->zero_x.
  void Forward(const ConvArguments& arguments);
  // x_diff = the gradient with respect to x; reads y_diff and the weights.
  void BackwardData(const ConvGradients& gradients);
  // w_diff += the gradient with respect to the weights; reads x and y_diff.
  void BackwardWeights(const ConvGradients& gradients);
  // b_diff += the sum of y_diff over images and positions.
  void BackwardBias(const ConvGradients& gradients);
  const ConvDescriptor& descriptor() const { return descriptor_; }

 protected:
  explicit ConvOp(const ConvDescriptor& descriptor) : descriptor_(descriptor) {}
  virtual void DoForward(const ConvArguments& arguments) = 0;
  // Never called for quantized operators, which have no gradients.
  virtual void DoBackwardData(const ConvGradients&) {}
  virtual void DoBackwardWeights(const ConvGradients&) {}
  virtual void DoBackwardBias(const ConvGradients&) {}
  // Throw if the operator needs prepared weights or a workspace and the call passes none.
  void CheckParts(DevicePtr images, int64_t channels, int64_t positions) const;
  void CheckMemory(DevicePtr prepared, DevicePtr workspace) const;
  void CheckWorkspace(DevicePtr workspace) const;
  ConvDescriptor descriptor_;
};

}  // namespace caffe

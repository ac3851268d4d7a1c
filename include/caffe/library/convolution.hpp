#pragma once

#include <cstdint>
#include <string>

#include "caffe/core/data_type.hpp"
#include "caffe/device/device_ptr.hpp"
#include "caffe/library/conv_geometry.hpp"
#include "caffe/library/epilogue.hpp"
#include "caffe/library/quant_arguments.hpp"

namespace caffe {

// A convolution of x [batch, in_channels, input…] with weights [out_channels, in_channels / group,
// kernel…] to y [batch, out_channels, output…], all C-order. A deconvolution is the same object
// with x and y exchanged: its forward pass is BackwardData.
struct ConvDescriptor {
  ConvGeometry geometry;
  int64_t batch = 1, in_channels = 0, out_channels = 0, group = 1;
  // Of x and weights, and of y: the pairs that GemmDescriptor lists. Backward needs in = out.
  DataType in = kFloat, out = kFloat;
  // A bias has out_channels elements; any kind but kNone means per channel.
  Epilogue epilogue;
  // Quantized types have a forward pass only, and always a bias.
  // Which passes to make ready; the gradient of the bias comes with that of the weights.
  bool forward = true, backward_data = false, backward_weights = false;
  // The most bytes of workspace; 0 leaves it to the library.
  int64_t workspace_limit = 0;

  // Of weight and bias gradients: double for double, else float.
  DataType master() const { return in == kDouble ? kDouble : kFloat; }
  bool quantized() const { return in.is_quantized(); }
  // Products in a sum.
  int64_t depth() const { return in_channels / group * geometry.kernel_count(); }
  int64_t weight_count() const {
    return out_channels * (in_channels / group) * geometry.kernel_count();
  }
  // "half 8x3x227x227 -> 96 11x11/4 group 1"
  std::string name() const;
  // Throws on channels that group does not divide and on unsupported types; normalizes geometry.
  void Normalize();
};

// A ConvDescriptor made ready on one device. Workspace is allocated at construction; the passes
// allocate nothing. Results repeat bit by bit for the same device and number of threads. Not
// thread-safe. A pass that the descriptor did not ask for throws.
class ConvOp {
 public:
  virtual ~ConvOp() = default;
  // Which library multiplies: openblas, native, clblast, cublas, generated.
  virtual const char* library() const = 0;
  // y = activation(conv(x, weights) + bias). `bias` is null if the epilogue has none.
  virtual void Forward(DevicePtr x, DevicePtr weights, DevicePtr bias, DevicePtr y) = 0;
  // Of quantized types in place of Forward. The codes of the weights are told before the first pass
  // and whenever they changed; they stay where they are. Padding holds zero_x.
  virtual void SetWeights(DevicePtr codes);
  virtual void ForwardQuantized(DevicePtr x, DevicePtr y, const QuantArguments& arguments);
  // x_diff = the gradient with respect to x; overwritten.
  virtual void BackwardData(DevicePtr y_diff, DevicePtr weights, DevicePtr x_diff) = 0;
  // w_diff (of type master()) += the gradient with respect to the weights.
  virtual void BackwardWeights(DevicePtr x, DevicePtr y_diff, DevicePtr w_diff) = 0;
  // b_diff (of type master()) += the sum of y_diff over images and positions.
  virtual void BackwardBias(DevicePtr y_diff, DevicePtr b_diff) = 0;
  virtual int64_t workspace_bytes() const = 0;
  const ConvDescriptor& descriptor() const { return descriptor_; }

 protected:
  explicit ConvOp(const ConvDescriptor& descriptor) : descriptor_(descriptor) {}
  ConvDescriptor descriptor_;
};

}  // namespace caffe

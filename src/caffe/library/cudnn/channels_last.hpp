#pragma once

#include <cstdint>
#include <memory>

#include "caffe/device/device.hpp"
#include "caffe/device/kernel.hpp"
#include "caffe/library/convolution.hpp"

namespace caffe::cudnn {

// A convolution in the form in which cuDNN computes it fast, and the arrays of that form.
//
// In kNHWC its weights have the order (out_channels, kernel…, in_channels / group). Engines for 16
// bits read whole vectors of channels: images with few channels get zeros as further channels. If
// the convolution has strides, as those of first layers, each position of the form holds a window
// of the size of the strides, and the form has stride 1 (kernels/conv/channels_last.h).
class ChannelsLast {
 public:
  // Normalized descriptors only.
  ChannelsLast(Device* device, const ConvDescriptor& d);

  // The convolution that cuDNN computes.
  static ConvDescriptor FormOf(const ConvDescriptor& d);
  const ConvDescriptor& form() const { return form_; }
  // Whether the form is made of images in kNCHW as well, for a y in kNHWC and passes that read x.
  static bool ReadsCOrder(const ConvDescriptor& d);
  // Whether the form has other images or weights than the convolution.
  bool changes_images() const { return changes_images_; }
  bool changes_weights() const { return changes_weights_; }
  int64_t image_bytes() const;

  void FoldImages(DevicePtr x, DevicePtr folded);
  void UnfoldImages(DevicePtr folded, DevicePtr x);
  void FoldWeights(DevicePtr weights, DevicePtr folded);
  // Makes AddGradient ready, for gradients of this type.
  void MakeAddition(Device* device, DataType type);
  // w_diff += the gradient of the form's weights; w_diff is float.
  void AddGradient(DevicePtr folded, DevicePtr w_diff);

 private:
  const ConvDescriptor d_, form_;
  const bool changes_images_, changes_weights_;
  // The arguments of the kernels: those of images, and those of weights.
  KernelArguments image_, weights_;
  std::unique_ptr<Kernel> fold_, unfold_, fold_weights_, add_;
};

}  // namespace caffe::cudnn

#pragma once

#include <string>

#include "caffe/core/shape.hpp"

namespace caffe {

class ConvolutionParameter;

// The window of a convolution, one entry per spatial axis, from kernel_size, stride (1), pad (0) and
// dilation (1), each given once for all axes or once per axis, or as _h and _w for two axes.
struct ConvWindow {
  Shape kernel, stride, pad, dilation;

  ConvWindow() = default;
  // Throws on values that are missing, given twice or not positive. `where` begins each message.
  ConvWindow(const std::string& where, const ConvolutionParameter& parameter, int axes);
  // What the taps span along an axis.
  int64_t extent(int axis) const { return dilation[axis] * (kernel[axis] - 1) + 1; }
};

}  // namespace caffe

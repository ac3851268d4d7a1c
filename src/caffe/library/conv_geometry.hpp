#pragma once

#include <cstdint>
#include <string>

#include "caffe/core/shape.hpp"

namespace caffe {

// The spatial geometry of a convolution over 1 to 6 axes:
//   output = (input + 2 pad - (dilation (kernel - 1) + 1)) / stride + 1
// where the quotient is rounded towards 0: a window that is larger than the padded input by less
// than the stride has one position, and elements beyond the padding count as padding.
// All vectors have one entry per spatial axis; empty stride, pad and dilation mean 1, 0 and 1.
struct ConvGeometry {
  static constexpr int kMaxAxes = 6;

  Shape input, kernel, stride, pad, dilation;

  // Throws if a value is out of range or an output extent would not be positive; fills empty
  // vectors.
  void Normalize();
  int axes() const { return static_cast<int>(input.size()); }
  Shape output() const;
  // The input with its padding, at least as large as the window.
  Shape padded() const;
  int64_t input_count() const { return ShapeCount(input); }
  int64_t kernel_count() const { return ShapeCount(kernel); }
  int64_t output_count() const { return ShapeCount(output()); }
  // A 1x…x1 window with stride 1 and no padding: the input is its own column matrix.
  bool pointwise() const;
};

}  // namespace caffe

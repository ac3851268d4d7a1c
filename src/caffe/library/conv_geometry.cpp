#include "caffe/library/conv_geometry.hpp"

#include <algorithm>

#include "caffe/core/error.hpp"

namespace caffe {

void ConvGeometry::Normalize() {
  const size_t count = input.size();
  CAFFE_CHECK(count >= 1 && count <= kMaxAxes, "a convolution has 1 to ", kMaxAxes,
              " spatial axes, not ", count);
  if (stride.empty()) stride.assign(count, 1);
  if (pad.empty()) pad.assign(count, 0);
  if (dilation.empty()) dilation.assign(count, 1);
  CAFFE_CHECK(kernel.size() == count && stride.size() == count && pad.size() == count &&
                  dilation.size() == count,
              "a convolution over ", count, " axes has ", kernel.size(), " kernel sizes, ",
              stride.size(), " strides, ", pad.size(), " pads and ", dilation.size(), " dilations");
  for (size_t i = 0; i < count; ++i) {
    CAFFE_CHECK(input[i] > 0 && kernel[i] > 0 && stride[i] > 0 && dilation[i] > 0 && pad[i] >= 0,
                "convolution axis ", i, ": input ", input[i], ", kernel ", kernel[i], ", stride ",
                stride[i], ", pad ", pad[i], ", dilation ", dilation[i], " are not all in range");
    const int64_t window = dilation[i] * (kernel[i] - 1) + 1;
    CAFFE_CHECK(input[i] + 2 * pad[i] - window > -stride[i], "convolution axis ", i,
                ": a window of ", window, " with stride ", stride[i], " does not fit into ",
                input[i], " elements padded by ", pad[i]);
  }
}

Shape ConvGeometry::output() const {
  Shape shape;
  for (size_t i = 0; i < input.size(); ++i) {
    const int64_t window = dilation[i] * (kernel[i] - 1) + 1;
    // C++ rounds a negative quotient up to 0, as in BVLC's Caffe.
    shape.push_back((input[i] + 2 * pad[i] - window) / stride[i] + 1);
  }
  return shape;
}

Shape ConvGeometry::padded() const {
  Shape shape;
  for (size_t i = 0; i < input.size(); ++i) {
    shape.push_back(std::max(input[i] + 2 * pad[i], dilation[i] * (kernel[i] - 1) + 1));
  }
  return shape;
}

bool ConvGeometry::pointwise() const {
  for (size_t i = 0; i < input.size(); ++i) {
    if (kernel[i] != 1 || stride[i] != 1 || pad[i] != 0) return false;
  }
  return true;
}

}  // namespace caffe

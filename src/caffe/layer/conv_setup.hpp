#pragma once

#include <string>

#include "caffe/layer/layer_facts.hpp"
#include "caffe/library/convolution.hpp"
#include "caffe/memory/blob.hpp"

namespace caffe {

class ConvolutionParameter;

// The window of a convolution, one entry per spatial axis, from kernel_size, stride (1), pad (0)
// and dilation (1). Each is given once for all axes or once per axis, or as _h and _w for two axes.
struct ConvWindow {
  Shape kernel, stride, pad, dilation;

  ConvWindow() = default;
  // Throws on values that are missing, given twice or not positive. `where` begins each message.
  ConvWindow(const std::string& where, const ConvolutionParameter& parameter, int axes);
  // The distance between the first and the last tap of an axis, plus 1.
  int64_t extent(int axis) const { return dilation[axis] * (kernel[axis] - 1) + 1; }
};

// The settings that Convolution and Deconvolution read from their parameter and first bottom.
struct ConvSetup {
  int axis = 1;  // of the channels; the spatial axes follow
  int64_t channels = 0, outputs = 0, group = 1;
  bool has_bias = true;
  ConvWindow window;

  ConvSetup() = default;
  // Throws on values that contradict each other. `where` begins each message.
  ConvSetup(const std::string& where, const ConvolutionParameter& parameter, const BlobVec& bottom,
            const BlobVec& top);
  // Throws unless all bottoms have one shape, with these channels and the same number of spatial
  // axes.
  void CheckBottoms(const std::string& where, const BlobVec& bottom) const;
  int spatial_axes() const { return static_cast<int>(window.kernel.size()); }
  // [N…, num_output], to which the output's spatial extents are appended.
  Shape OutputStart(const Shape& input) const;
  // The parameter's shape: [first, second, kernel…].
  Shape WeightShape(int64_t first, int64_t second) const;
  // The descriptor for this shape of the bottom, without epilogue and backward passes.
  ConvDescriptor Descriptor(const Shape& input, const TypeTriple& types) const;
};

// The layouts in which libraries of the device can compute a forward pass.
LayerFacts::Layouts ConvLayouts(Device* device, ConvDescriptor descriptor);

}  // namespace caffe

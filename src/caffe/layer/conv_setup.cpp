#include "caffe/layer/conv_setup.hpp"

#include <algorithm>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/library/multiplexer.hpp"

namespace caffe {
namespace {

constexpr int64_t kLargest = int64_t{1} << 30;  // products of two fit into 64 bits

using Repeated = google::protobuf::RepeatedField<uint32_t>;

// One value per spatial axis from a repeated field; empty if the field is not given.
Shape PerAxis(const std::string& where, const char* name, const Repeated& values, int axes) {
  if (values.empty()) return {};
  CAFFE_CHECK(values.size() == 1 || values.size() == axes, where, ": ", name, " is given ",
              values.size(), " times for ", axes, " spatial axes; give it once, or once per axis");
  if (values.size() == 1) return Shape(axes, values[0]);
  return Shape(values.begin(), values.end());
}

// The same with the forms _h and _w, which exclude the repeated field.
Shape PerAxis2D(const std::string& where, const char* name, const Repeated& values, bool has_h,
                uint32_t h, bool has_w, uint32_t w, int axes) {
  if (!has_h && !has_w) return PerAxis(where, name, values, axes);
  CAFFE_CHECK(values.empty(), where, ": ", name, " is given twice, once as _h and _w");
  CAFFE_CHECK(axes == 2, where, ": the _h and _w forms of ", name,
              " need two spatial axes, but there are ", axes);
  return {h, w};
}

}  // namespace

ConvWindow::ConvWindow(const std::string& where, const ConvolutionParameter& p, int axes)
    : kernel(PerAxis2D(where, "kernel_size", p.kernel_size(), p.has_kernel_h(), p.kernel_h(),
                       p.has_kernel_w(), p.kernel_w(), axes)),
      stride(PerAxis2D(where, "stride", p.stride(), p.has_stride_h(), p.stride_h(),
                       p.has_stride_w(), p.stride_w(), axes)),
      pad(PerAxis2D(where, "pad", p.pad(), p.has_pad_h(), p.pad_h(), p.has_pad_w(), p.pad_w(),
                    axes)),
      dilation(PerAxis(where, "dilation", p.dilation(), axes)) {
  CAFFE_CHECK(axes == 0 || !kernel.empty(), where, ": kernel_size must be given");
  if (stride.empty()) stride.assign(axes, 1);
  if (pad.empty()) pad.assign(axes, 0);
  if (dilation.empty()) dilation.assign(axes, 1);
  for (int i = 0; i < axes; ++i) {
    CAFFE_CHECK(kernel[i] > 0 && stride[i] > 0 && dilation[i] > 0, where, ": kernel_size ",
                kernel[i], ", stride ", stride[i], " and dilation ", dilation[i],
                " of spatial axis ", i, " must be positive");
    CAFFE_CHECK(std::max({kernel[i], stride[i], pad[i], dilation[i]}) <= kLargest, where,
                ": kernel_size ", kernel[i], ", stride ", stride[i], ", pad ", pad[i],
                " and dilation ", dilation[i], " of spatial axis ", i,
                " must not be larger than 2^30");
  }
}

ConvSetup::ConvSetup(const std::string& where, const ConvolutionParameter& parameter,
                     const BlobVec& bottom, const BlobVec& top)
    : axis(bottom[0]->CanonicalAxisIndex(parameter.axis())),
      channels(bottom[0]->shape(axis)),
      outputs(parameter.num_output()),
      group(parameter.group()),
      has_bias(parameter.bias_term()) {
  CAFFE_CHECK(bottom.size() == top.size(), where, ": has ", bottom.size(), " bottoms and ",
              top.size(), " tops; every bottom needs a top");
  CAFFE_CHECK(parameter.fuse_type() == ConvolutionParameter::UNFUSED, where, ": fuse_type ",
              ConvolutionParameter::FuseType_Name(parameter.fuse_type()),
              " is not supported; remove it: layers are fused automatically");
  CAFFE_CHECK(outputs > 0, where, ": num_output must be given and positive");
  CAFFE_CHECK(group > 0 && channels % group == 0, where, ": ", channels,
              " input channels are not divisible by group ", group);
  CAFFE_CHECK(outputs % group == 0, where, ": num_output ", outputs, " is not divisible by group ",
              group);
  window = ConvWindow(where, parameter, bottom[0]->num_axes() - axis - 1);
}

void ConvSetup::CheckBottoms(const std::string& where, const BlobVec& bottom) const {
  const Shape& input = bottom[0]->shape();
  CAFFE_CHECK(
      static_cast<int>(input.size()) == axis + 1 + spatial_axes() && input[axis] == channels, where,
      ": was made for ", channels, " channels on axis ", axis, " and ", spatial_axes(),
      " spatial axes, but the bottom has shape ", bottom[0]->shape_string());
  for (size_t i = 0; i < bottom.size(); ++i) {
    CAFFE_CHECK(bottom[i]->shape() == input, where, ": all bottoms must have one shape, bottom ", i,
                " has ", bottom[i]->shape_string(), ", bottom 0 ", bottom[0]->shape_string());
  }
}

Shape ConvSetup::OutputStart(const Shape& input) const {
  Shape shape(input.begin(), input.begin() + axis);
  shape.push_back(outputs);
  return shape;
}

Shape ConvSetup::WeightShape(int64_t first, int64_t second) const {
  Shape shape{first, second};
  shape.insert(shape.end(), window.kernel.begin(), window.kernel.end());
  return shape;
}

ConvDescriptor ConvSetup::Descriptor(const Shape& input, const TypeTriple& types) const {
  ConvDescriptor d;
  d.batch = ShapeCount(input, 0, axis);
  d.in_channels = channels;
  d.out_channels = outputs;
  d.group = group;
  d.in = types.in;
  d.out = types.out;
  if (spatial_axes() == 0) {
    // Without spatial axes the convolution has one axis of a single position.
    d.geometry.input = d.geometry.kernel = {1};
  } else {
    d.geometry = {Shape(input.begin() + axis + 1, input.end()), window.kernel, window.stride,
                  window.pad, window.dilation};
  }
  return d;
}

LayerFacts::Layouts ConvLayouts(Device* device, ConvDescriptor d) {
  LayerFacts::Layouts layouts;
  if (d.quantized()) d.epilogue.bias = Epilogue::Bias::kPerRow;
  layouts.prefers_nhwc = Multiplexer::PreferredLayout(device, d) == Layout::kNHWC;
  d.y_layout = Layout::kNHWC;
  ConvDescriptor first = d;
  first.backward_data = false;
  layouts.reads_nchw = Multiplexer::KnowsLayouts(device, first);
  d.x_layout = Layout::kNHWC;
  layouts.nhwc = Multiplexer::KnowsLayouts(device, d, &layouts.parts);
  // Depthwise convolutions have kernels of our own, in C order.
  const bool depthwise = d.group > 1 && d.group == d.in_channels;
  layouts.trains = layouts.nhwc && d.backward_weights && !depthwise;
  return layouts;
}

}  // namespace caffe

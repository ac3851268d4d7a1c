#include "caffe/library/gemmlowp/code_patches.hpp"

namespace caffe {
namespace {

// The offset of index `number` (in C order over `extents`) in an array of shape `within`, if an
// index on axis a counts step[a] elements.
int64_t Offset(int64_t number, const Shape& extents, const Shape& step, const Shape& within) {
  int64_t at = 0, stride = 1;
  for (int axis = static_cast<int>(extents.size()) - 1; axis >= 0; --axis) {
    at += number % extents[axis] * step[axis] * stride;
    number /= extents[axis];
    stride *= within[axis];
  }
  return at;
}

int64_t PadOffset(const ConvGeometry& g, const Shape& padded) {
  int64_t at = 0, stride = 1;
  for (int axis = g.axes() - 1; axis >= 0; --axis) {
    at += g.pad[axis] * stride;
    stride *= padded[axis];
  }
  return at;
}

}  // namespace

CodePatches::CodePatches(const ConvDescriptor& d) {
  const ConvGeometry& g = d.geometry;
  const int last = g.axes() - 1;
  const Shape padded = g.padded(), ones(g.axes(), 1), out = g.output();
  plane_ = ShapeCount(padded);
  image_plane_ = g.input_count();
  for (int64_t i = 0; i < g.output_count(); ++i) {
    starts_.push_back(Offset(i, out, g.stride, padded));
  }
  // Taps in runs of neighbours, if the last axis is not dilated.
  run_ = g.dilation[last] == 1 ? g.kernel[last] : 1;
  for (int64_t i = 0; i < g.kernel_count(); i += run_) {
    taps_.push_back(Offset(i, g.kernel, g.dilation, padded));
  }
  if (padded != g.input) {
    image_width_ = g.input[last];
    for (int64_t i = 0; i < image_plane_; i += image_width_) {
      image_rows_.push_back(PadOffset(g, padded) + Offset(i, g.input, ones, padded));
    }
    padded_bytes_ = d.batch * d.in_channels * plane_ * static_cast<int64_t>(d.in.bytes());
  }
  points_ = g.kernel_count() == 1 && positions() == plane_;
}

}  // namespace caffe

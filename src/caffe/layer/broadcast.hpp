#pragma once

#include <string>

#include "caffe/memory/blob.hpp"

namespace caffe {

// The position of a parameter of Bias and Scale relative to a bottom: its axes are the bottom's
// from `axis` on, and the bottom is [outer, channels, inner] with one value of the parameter per
// channel.
struct Broadcast {
  int64_t outer = 1, channels = 1, inner = 1;

  // The shape of a learned parameter: `num_axes` axes of the bottom from `axis` on, -1 for all, 0
  // for one value. `where` begins messages.
  static Shape ParameterShape(const std::string& where, const BlobBase& bottom, int axis,
                              int num_axes);
  // Throws if the parameter's shape is not that part of the bottom's.
  static Broadcast Make(const std::string& where, const BlobBase& bottom, int axis,
                        const Shape& parameter);
  // Kernels run over rows [inner] of one channel, or over rows [channels] if inner is 1.
  bool columns() const { return inner == 1; }
};

}  // namespace caffe

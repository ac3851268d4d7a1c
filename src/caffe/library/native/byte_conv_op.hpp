#pragma once

#include <omp.h>

#include <cstdint>

#include "caffe/library/convolution.hpp"
#include "caffe/library/native/code_sum.hpp"
#include "caffe/library/workspace_layout.hpp"

namespace caffe {

// A convolution over two axes; one axis is an image of one row.
struct ConvWindow2d {
  explicit ConvWindow2d(const ConvGeometry& g) {
    const auto at = [&g](const Shape& values, int axis, int64_t otherwise) {
      const int from = axis - 2 + g.axes();
      return from < 0 ? otherwise : values[from];
    };
    const Shape out = g.output();
    for (int a = 0; a < 2; ++a) {
      input[a] = at(g.input, a, 1);
      output[a] = at(out, a, 1);
      kernel[a] = at(g.kernel, a, 1);
      stride[a] = at(g.stride, a, 1);
      pad[a] = at(g.pad, a, 0);
      dilation[a] = at(g.dilation, a, 1);
    }
  }
  int64_t input[2], output[2], kernel[2], stride[2], pad[2], dilation[2];
};

// The common part of convolutions of codes whose channels are last in y.
class ByteConvOp : public ConvOp {
 public:
  ByteConvOp(Device* device, const ConvDescriptor& d)
      : ConvOp(d), device_(device), window_(d.geometry) {}
  const char* library() const override { return "native"; }
  int64_t workspace_bytes() const override { return layout_.bytes(); }

 protected:
  static constexpr int64_t kParallelProducts = 1 << 17;

  bool Parallel() const {
    const ConvDescriptor& d = descriptor_;
    return d.batch * d.out_channels * d.geometry.output_count() * d.depth() >= kParallelProducts &&
           !omp_in_parallel();
  }

  // To `channels` channels of rows of y, from `row` and `channel` on.
  void AddResidual(const ConvArguments& arguments, int64_t row, int64_t rows, int64_t channel,
                   int64_t channels) const {
    const ConvDescriptor& d = descriptor_;
    ResidualCodes(d.epilogue, d.in, *arguments.quant, arguments.epilogue.residual, arguments.y)
        .Add(rows, channels, row * d.y_row() + channel, d.y_row(), row * d.out_channels + channel,
             d.out_channels);
  }

  Device* device_;
  const ConvWindow2d window_;
  WorkspaceLayout layout_;
};

}  // namespace caffe

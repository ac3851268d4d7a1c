#pragma once

#include <memory>
#include <string>

#include "caffe/layer/conv_setup.hpp"
#include "caffe/layer/quantized_parameters.hpp"
#include "caffe/memory/blob.hpp"
#include "caffe/memory/derived.hpp"

namespace caffe {

// The forward pass of a deconvolution in codes, over up to 3 spatial axes. Weights and bias are
// quantized per output channel as those of a convolution (QuantizedParameters); sums have 64 bits.
class CodeDeconvolution {
 public:
  static constexpr int kMaxAxes = 3;
  // Parameters as in Deconvolution; `bias` may be null.
  CodeDeconvolution(const ConvSetup& setup, const BlobBase* weights, const BlobBase* bias,
                    const QuantizedParameters::Options& options, DataType type, Device* device);
  // Bytes of the quantized parameters, and the scales of their codes: empty before Prepare.
  int64_t bytes() const { return parameters_.bytes(); }
  const std::vector<double>& scales() const { return parameters_.scales(); }
  // Brings the quantized parameters up to date.
  void Prepare(const QuantRange& x, const QuantRange& y);
  // Shapes of bottom and top.
  void Launch(const Shape& input, const Shape& output, KernelArgument x, KernelArgument y) const;

 private:
  ConvSetup setup_;
  DataType type_;
  QuantizedParameters parameters_;  // codes [outputs, channels / group, kernel…]
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace caffe

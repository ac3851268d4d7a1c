#pragma once

#include "caffe/layers/convolution_layer.hpp"

namespace caffe {

class LayerRegistry;

// A Convolution with one group for each input channel:
//   y[n, o, p] = b[o] + sum over k of w[o, 0, k] x[n, o C / num_output, p stride + k dilation - pad]
// It has two names, DepthwiseConvolution and ConvolutionDepthwise, and the blobs of the Convolution:
// weights [num_output, 1, kernel…], bias [num_output].
// convolution_param: that of Convolution; group may be omitted, num_output (a multiple of the input
//   channels) is the number of input channels by default.
class DepthwiseConvolution : public Convolution {
 public:
  using Convolution::Convolution;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class DepthwiseConvolutionLayer final : public Layer<Dtype, MItype, MOtype, DepthwiseConvolution> {
  using Layer<Dtype, MItype, MOtype, DepthwiseConvolution>::Layer;
};

}  // namespace caffe

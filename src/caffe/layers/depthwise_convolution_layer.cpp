#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"
#include "convolution_layer.hpp"

namespace caffe {
namespace {

// A Convolution with one group for each input channel:
//   y[n, o, p] = b[o] + sum over k of w[o, 0, k] x[n, o C / num_output, p stride + k dilation -
//   pad]
// It has two names, DepthwiseConvolution and ConvolutionDepthwise, and the blobs of the
// Convolution: weights [num_output, 1, kernel…], bias [num_output].
// convolution_param: that of Convolution; group may be omitted, num_output (a multiple of the input
//   channels) is the number of input channels by default.
class DepthwiseConvolution : public Convolution {
 public:
  using Convolution::Convolution;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
};

template <class Dtype, class MItype, class MOtype>
using DepthwiseConvolutionLayer = Layer<Dtype, MItype, MOtype, DepthwiseConvolution>;

void DepthwiseConvolution::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  ConvolutionParameter* parameter = mutable_layer_param()->mutable_convolution_param();
  const int64_t channels = bottom[0]->shape(bottom[0]->CanonicalAxisIndex(parameter->axis()));
  CAFFE_CHECK(!parameter->has_group() || parameter->group() == channels, Where(), ": group ",
              parameter->group(), " is not the number of input channels, ", channels,
              "; remove it, or use type Convolution");
  CAFFE_CHECK(channels > 0, Where(), ": the bottom of shape ", bottom[0]->shape_string(),
              " has no channels");
  parameter->set_group(static_cast<uint32_t>(channels));
  if (!parameter->has_num_output()) parameter->set_num_output(static_cast<uint32_t>(channels));
  Convolution::LayerSetUp(bottom, top);
}

}  // namespace

void RegisterDepthwiseConvolutionLayer(LayerRegistry& registry) {
  LayerTraits traits = registry.Traits("Convolution");
  traits.grouped_form = nullptr;
  traits.summary = "a Convolution with one group for each channel";
  registry.Add<DepthwiseConvolutionLayer>("DepthwiseConvolution", traits);
  registry.Add<DepthwiseConvolutionLayer>("ConvolutionDepthwise", traits);
}

}  // namespace caffe

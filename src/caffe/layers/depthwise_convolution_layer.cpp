#include "caffe/layers/depthwise_convolution_layer.hpp"

#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

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

void RegisterDepthwiseConvolutionLayer(LayerRegistry& registry) {
  LayerTraits traits = registry.Traits("Convolution");
  traits.summary = "a Convolution with one group for each channel";
  registry.Add<DepthwiseConvolutionLayer>("DepthwiseConvolution", traits);
  registry.Add<DepthwiseConvolutionLayer>("ConvolutionDepthwise", traits);
}

}  // namespace caffe

#include "caffe/layers/argmax_layer.hpp"

#include <algorithm>
#include <bit>

#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

void ArgMax::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(layer_param().argmax_param().top_k() > 0, Where(), ": top_k must be positive");
  forward_ = MakeKernel("blas/argmax", "argmax");
}

void ArgMax::Reshape(const BlobVec& bottom, const BlobVec& top) {
  const ArgMaxParameter& parameter = layer_param().argmax_param();
  const int64_t top_k = parameter.top_k();
  Shape shape;
  if (parameter.has_axis()) {
    shape = bottom[0]->shape();
    const int axis = CanonicalAxis(shape, parameter.axis(), Where());
    outer_ = bottom[0]->count(0, axis);
    channels_ = shape[axis];
    inner_ = bottom[0]->count(axis + 1);
    shape[axis] = top_k;
  } else {
    CAFFE_CHECK(bottom[0]->num_axes() > 0, Where(), ": needs a bottom with axes");
    shape.assign(std::max(bottom[0]->num_axes(), 3), 1);
    outer_ = shape[0] = bottom[0]->shape(0);
    channels_ = bottom[0]->count(1);
    inner_ = 1;
    shape[1] = parameter.out_max_val() ? 2 : 1;
    shape[2] = top_k;
  }
  CAFFE_CHECK(top_k <= channels_, Where(), ": top_k ", top_k, " exceeds the ", channels_,
              " elements to choose from in a bottom of shape ", bottom[0]->shape_string());
  CAFFE_CHECK(channels_ <= int64_t{1} << 24, Where(), ": indices beyond 2^24 are not exact in ",
              "float; there are ", channels_);
  top[0]->Reshape(shape);
}

void ArgMax::Forward(const BlobVec& bottom, const BlobVec& top) {
  const ArgMaxParameter& parameter = layer_param().argmax_param();
  const bool values = parameter.out_max_val(), places = !values || !parameter.has_axis();
  forward_->Launch(
      outer_ * inner_,
      {outer_ * inner_, channels_, inner_, parameter.top_k(), places + values, places ? 0 : -1,
       values ? places : -1, std::bit_cast<uint32_t>(static_cast<float>(BottomRange(0).scale)),
       In(bottom, 0), top[0]->MutableData()});
}

void ArgMax::Backward(const BlobVec&, const std::vector<bool>& propagate_down, const BlobVec&) {
  CAFFE_CHECK(!propagate_down[0], Where(), ": has no gradient");
}

void RegisterArgMaxLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.types = BuiltInTypes();
  traits.float_tops = {0};
  traits.no_gradient_bottoms = {0};
  traits.backward = false;
  traits.summary = "indices of the top_k largest elements";
  registry.Add<ArgMaxLayer>("ArgMax", traits);
}

}  // namespace caffe

#include "caffe/layers/flatten_layer.hpp"

#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

void Flatten::Reshape(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(top[0] != bottom[0], Where(), ": can not work in place");
  const FlattenParameter& parameter = layer_param().flatten_param();
  const int first = CanonicalAxis(bottom[0]->shape(), parameter.axis(), Where());
  const int last = CanonicalAxis(bottom[0]->shape(), parameter.end_axis(), Where());
  CAFFE_CHECK(first <= last, Where(), ": axis ", first, " lies behind end_axis ", last);
  Shape shape(bottom[0]->shape().begin(), bottom[0]->shape().begin() + first);
  shape.push_back(bottom[0]->count(first, last + 1));
  shape.insert(shape.end(), bottom[0]->shape().begin() + last + 1, bottom[0]->shape().end());
  top[0]->Reshape(shape);
  top[0]->ShareData(*bottom[0]);
}

void Flatten::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (top[0]->data_memory() != bottom[0]->data_memory()) top[0]->ShareData(*bottom[0]);
}

void Flatten::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                       const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  if (!types().compute.is_float()) return LayerBase::Backward(top, propagate_down, bottom);
  if (bottom[0]->diff_memory() != top[0]->diff_memory()) bottom[0]->ShareDiff(*top[0]);
}

void RegisterFlattenLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.types = BuiltInTypes();
  traits.summary = "axes axis to end_axis as one";
  registry.Add<FlattenLayer>("Flatten", traits);
}

}  // namespace caffe

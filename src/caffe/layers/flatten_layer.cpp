#include "caffe/layers/flatten_layer.hpp"

#include "caffe.pb.h"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

void Flatten::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(top[0] != bottom[0], Where(), ": does not work in place");
}

void Flatten::Reshape(const BlobVec& bottom, const BlobVec& top) {
  const FlattenParameter& parameter = layer_param().flatten_param();
  const int first = bottom[0]->CanonicalAxisIndex(parameter.axis());
  const int last = bottom[0]->CanonicalAxisIndex(parameter.end_axis());
  CAFFE_CHECK(first <= last, Where(), ": axis ", first, " is after end_axis ", last);
  const Shape& shape = bottom[0]->shape();
  Shape flat(shape.begin(), shape.begin() + first);
  flat.push_back(bottom[0]->count(first, last + 1));
  flat.insert(flat.end(), shape.begin() + last + 1, shape.end());
  top[0]->Reshape(flat);
  top[0]->ShareData(*bottom[0]);
}

void Flatten::Forward(const BlobVec& bottom, const BlobVec& top) { top[0]->ShareData(*bottom[0]); }

void Flatten::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                       const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  if (types().compute.is_quantized()) return LayerBase::Backward(top, propagate_down, bottom);
  bottom[0]->ShareDiff(*top[0]);
}

LayerFacts Flatten::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  facts.range = LayerFacts::Range::kCarried;
  facts.aliases = {{0, 0}};
  return facts;
}

void RegisterFlattenLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.types = BuiltInTypes();
  traits.moves_elements = true;
  traits.backward_reads = Always({});
  traits.top_memory = TopMemory::kSharedIfAlone;
  traits.summary = "merges axes into one";
  registry.Add<FlattenLayer>("Flatten", traits);
}

}  // namespace caffe

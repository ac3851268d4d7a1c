#include "caffe.pb.h"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// Merges the axes from `axis` to `end_axis`, both included, into one. Data and diff are shared with
// the bottom; nothing is copied.
// bottom 0: any shape; top 0: [d0, …, product, …]. Not in place.
// flatten_param: axis (1), end_axis (-1).
// Types: all, the range is carried through; backward float kinds.
class Flatten : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;
};

template <class Dtype, class MItype, class MOtype>
using FlattenLayer = Layer<Dtype, MItype, MOtype, Flatten>;

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

}  // namespace

void RegisterFlattenLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.types = BuiltInTypes();
  traits.moves_elements = true;
  traits.backward_reads = Always({});
  traits.top_memory = TopMemory::kSharedIfAlone;
  traits.per_item = [](const LayerParameter& layer) { return layer.flatten_param().axis() > 0; };
  traits.summary = "merges axes into one";
  registry.Add<FlattenLayer>("Flatten", traits);
}

}  // namespace caffe

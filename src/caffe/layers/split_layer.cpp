#include "caffe.pb.h"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// Copies of a blob for several readers: the tops share the bottom's data, and dE/dx is the sum of
// the gradients of all tops.
// bottom 0: any shape; top 0…: the same. Not in place.
// Types: all, the range is carried through; backward float kinds.
class Split : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  int tops_ = 0;
  std::unique_ptr<Kernel> add_;
};

template <class Dtype, class MItype, class MOtype>
using SplitLayer = Layer<Dtype, MItype, MOtype, Split>;

void Split::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  for (const BlobBase* blob : top) {
    CAFFE_CHECK(blob != bottom[0], Where(), ": does not work in place");
  }
  tops_ = static_cast<int>(top.size());
  if (types().compute.is_float()) add_ = MakeKernel("neuron/add", "add");
}

void Split::Reshape(const BlobVec& bottom, const BlobVec& top) {
  for (BlobBase* blob : top) {
    blob->ReshapeLike(*bottom[0]);
    blob->ShareData(*bottom[0]);
  }
}

void Split::Forward(const BlobVec& bottom, const BlobVec& top) {
  // Repeated in each forward, since the bottom's memory may have changed.
  for (BlobBase* blob : top) blob->ShareData(*bottom[0]);
}

void Split::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                     const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  if (!add_) return LayerBase::Backward(top, propagate_down, bottom);
  const int64_t count = bottom[0]->count();
  if (top.size() == 1) {
    device()->Copy(bottom[0]->mutable_device_diff(), top[0]->device_diff(), bottom[0]->bytes());
    return;
  }
  add_->Launch(count, {count, top[0]->Diff(), top[1]->Diff(), bottom[0]->MutableDiff()});
  for (size_t i = 2; i < top.size(); ++i) {
    add_->Launch(count, {count, bottom[0]->Diff(), top[i]->Diff(), bottom[0]->MutableDiff()});
  }
}

LayerFacts Split::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  facts.range = LayerFacts::Range::kCarried;
  facts.layouts.any = true;
  for (int t = 0; t < tops_; ++t) facts.aliases.push_back({t, 0});
  return facts;
}

}  // namespace

void RegisterSplitLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.max_top = -1;
  traits.types = BuiltInTypes();
  traits.moves_elements = true;
  traits.backward_reads = Always({});
  traits.top_memory = TopMemory::kShared;
  traits.per_item = Always(true);
  traits.summary = "copies of a blob for several readers, which share its memory";
  registry.Add<SplitLayer>("Split", traits);
}

}  // namespace caffe

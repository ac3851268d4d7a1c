#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// Reads blobs that no other layer reads, so that they are not outputs of the net. Their gradients
// are 0.
// bottom 0…: any shape; no top.
// Types: all.
class Silence : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void Reshape(const BlobVec&, const BlobVec&) override {}
  void Forward(const BlobVec&, const BlobVec&) override {}
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;
};

template <class Dtype, class MItype, class MOtype>
using SilenceLayer = Layer<Dtype, MItype, MOtype, Silence>;

void Silence::Backward(const BlobVec&, const std::vector<bool>& propagate_down,
                       const BlobVec& bottom) {
  for (size_t i = 0; i < bottom.size(); ++i) {
    if (!propagate_down[i]) continue;
    device()->Fill(bottom[i]->mutable_device_diff(), 0, bottom[i]->bytes());
  }
}

LayerFacts Silence::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  return facts;
}

}  // namespace

void RegisterSilenceLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.max_bottom = -1;
  traits.min_top = traits.max_top = 0;
  traits.types = BuiltInTypes();
  traits.moves_elements = true;
  traits.backward_reads = Always({});
  traits.per_item = Always(true);
  traits.summary = "reads blobs, so that they are not outputs of the net";
  registry.Add<SilenceLayer>("Silence", traits);
}

}  // namespace caffe

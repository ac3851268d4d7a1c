#include "caffe/layers/silence_layer.hpp"

#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

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

void RegisterSilenceLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.max_bottom = -1;
  traits.min_top = traits.max_top = 0;
  traits.types = BuiltInTypes();
  traits.moves_elements = true;
  traits.backward_reads = Always({});
  traits.summary = "reads blobs, so that they are not outputs of the net";
  registry.Add<SilenceLayer>("Silence", traits);
}

}  // namespace caffe

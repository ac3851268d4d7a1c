#include "stored_state_layer.hpp"

#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

template <class Dtype, class MItype, class MOtype>
using StoredStateLayer = Layer<Dtype, MItype, MOtype, StoredState>;

}  // namespace

void StoredState::Forward(const BlobVec& bottom, const BlobVec&) {
  CAFFE_CHECK(state_, Where(), ": stores the state of a recurrent layer; use LSTM, RNN or GRU");
  state_->Store(*bottom[0]);
}

LayerFacts StoredState::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  return facts;
}

void RegisterStoredStateLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_top = traits.max_top = 0;
  traits.no_gradient_bottoms = {0};
  traits.backward = false;
  traits.backward_reads = Always({});
  traits.summary = "stores the last state of a recurrent layer for the next forward";
  registry.Add<StoredStateLayer>("StoredState", traits);
}

}  // namespace caffe

#include "caffe/layers/tanh_layer.hpp"

#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

void TanH::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  forward_ = MakeKernel("neuron/tanh", "tanh_forward");
  backward_ = MakeKernel("neuron/tanh", "tanh_backward");
}

void TanH::Reshape(const BlobVec& bottom, const BlobVec& top) { top[0]->ReshapeLike(*bottom[0]); }

void TanH::Forward(const BlobVec& bottom, const BlobVec& top) {
  const int64_t count = bottom[0]->count();
  forward_->Launch(count, {count, bottom[0]->Data(), top[0]->MutableData()});
}

void TanH::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                    const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  const int64_t count = bottom[0]->count();
  backward_->Launch(count, {count, top[0]->Data(), top[0]->Diff(), bottom[0]->MutableDiff()});
}

void RegisterTanHLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.in_place = true;
  traits.summary = "y = tanh(x)";
  registry.Add<TanHLayer>("TanH", traits);
}

}  // namespace caffe

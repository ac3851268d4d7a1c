#include "caffe/layers/sigmoid_layer.hpp"

#include "caffe/layer/layer_registry.hpp"

namespace caffe {

void Sigmoid::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  forward_ = MakeKernel("neuron/sigmoid", "sigmoid_forward");
  backward_ = MakeKernel("neuron/sigmoid", "sigmoid_backward");
}

void Sigmoid::Reshape(const BlobVec& bottom, const BlobVec& top) {
  top[0]->ReshapeLike(*bottom[0]);
}

void Sigmoid::Forward(const BlobVec& bottom, const BlobVec& top) {
  const int64_t count = bottom[0]->count();
  forward_->Launch(count, {count, bottom[0]->Data(), top[0]->MutableData()});
}

void Sigmoid::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                       const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  const int64_t count = top[0]->count();
  backward_->Launch(count, {count, top[0]->Data(), top[0]->Diff(), bottom[0]->MutableDiff()});
}

void RegisterSigmoidLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.in_place = true;
  traits.summary = "y = 1 / (1 + exp(-x))";
  registry.Add<SigmoidLayer>("Sigmoid", traits);
}

}  // namespace caffe

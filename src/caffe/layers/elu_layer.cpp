#include "caffe/layers/elu_layer.hpp"

#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

void ELU::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  alpha_ = layer_param().elu_param().alpha();
  input_.SetDevice(device());
  forward_ = MakeKernel("neuron/elu", "elu_forward");
  backward_ = MakeKernel("neuron/elu", "elu_backward");
}

void ELU::Reshape(const BlobVec& bottom, const BlobVec& top) { top[0]->ReshapeLike(*bottom[0]); }

void ELU::Forward(const BlobVec& bottom, const BlobVec& top) {
  input_.Keep(*bottom[0], *top[0], need_backward() && alpha_ < 0);
  const int64_t count = bottom[0]->count();
  forward_->Launch(count, {count, bottom[0]->Data(), top[0]->MutableData(), alpha_});
}

void ELU::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                   const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  const int64_t count = bottom[0]->count();
  const KernelArgument x = alpha_ < 0 ? input_.Data(*bottom[0], *top[0]) : bottom[0]->Data();
  backward_->Launch(count,
                    {count, x, top[0]->Data(), top[0]->Diff(), bottom[0]->MutableDiff(), alpha_});
}

void RegisterELULayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.in_place = true;
  traits.summary = "y = x if x > 0, else alpha (e^x - 1)";
  registry.Add<ELULayer>("ELU", traits);
}

}  // namespace caffe

#include "caffe/layers/relu_layer.hpp"

#include "caffe.pb.h"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

void ReLU::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  slope_ = layer_param().relu_param().negative_slope();
  input_.SetDevice(device());
  forward_ = MakeKernel("neuron/relu", slope_ == 0 ? "relu_forward" : "relu_forward_slope");
  if (types().compute.is_float()) backward_ = MakeKernel("neuron/relu", "relu_backward");
}

void ReLU::Reshape(const BlobVec& bottom, const BlobVec& top) { top[0]->ReshapeLike(*bottom[0]); }

void ReLU::Forward(const BlobVec& bottom, const BlobVec& top) {
  input_.Keep(*bottom[0], *top[0], KeepsInput());
  KernelArguments arguments{bottom[0]->count(), In(bottom, 0), Out(top, 0), Rescale(0, 0)};
  if (slope_ != 0) arguments.push_back(Rescale(0, 0, slope_));
  forward_->Launch(bottom[0]->count(), arguments);
}

void ReLU::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                    const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  if (!backward_) return LayerBase::Backward(top, propagate_down, bottom);
  const KernelArgument x = slope_ < 0 ? input_.Data(*bottom[0], *top[0]) : bottom[0]->Data();
  backward_->Launch(bottom[0]->count(), {bottom[0]->count(), x, top[0]->Diff(),
                                         bottom[0]->MutableDiff(), static_cast<double>(slope_)});
}

LayerFacts ReLU::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  facts.layouts.any = true;
  facts.pointwise = Activation{Activation::Kind::kReLU, slope_};
  return facts;
}

void RegisterReLULayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.in_place = true;
  traits.types = BuiltInTypes();
  // Factors of codes are not negative.
  traits.quantizes = [](const LayerParameter& layer) {
    return layer.relu_param().negative_slope() >= 0;
  };
  traits.backward_reads = [](const LayerParameter& layer) {
    return BackwardReads{{0}, {}, layer.relu_param().negative_slope() < 0, true};
  };
  traits.edges = &ElementwiseEdges;
  traits.summary = "y = max(x, 0) + negative_slope * min(x, 0)";
  registry.Add<ReLULayer>("ReLU", traits);
}

}  // namespace caffe

#include "caffe.pb.h"
#include "caffe/layer/input_copy.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// y = x if x > 0, else negative_slope * x; NaN is propagated.
//   dE/dx = dE/dy if x > 0, else negative_slope * dE/dy
// bottom 0, top 0: any shape, the same. In place allowed: the sign of y is that of x for slopes
// >= 0; for a negative slope the layer keeps a copy of x.
// relu_param: negative_slope (0).
// Types: float kinds; quant8 and quant16 forward, where y has a range of its own.
class ReLU : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  LayerArrays Arrays(const BlobVec& bottom, const BlobVec& top) override {
    return {input_.Arrays(*bottom[0], *top[0], KeepsInput()), {}};
  }
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  // Whether Backward reads the bottom's data.
  bool KeepsInput() const { return need_backward() && slope_ < 0; }
  float slope_ = 0;
  InputCopy input_;  // kept for negative slopes
  std::unique_ptr<Kernel> forward_, backward_;
};

template <class Dtype, class MItype, class MOtype>
using ReLULayer = Layer<Dtype, MItype, MOtype, ReLU>;

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
  const ElementFunction leaky{ElementFunction::Kind::kLeaky, slope_};
  facts.function = slope_ == 0 ? kPlainReLU : leaky;
  return facts;
}

}  // namespace

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
  traits.per_item = Always(true);
  traits.summary = "y = max(x, 0) + negative_slope * min(x, 0)";
  registry.Add<ReLULayer>("ReLU", traits);
}

}  // namespace caffe

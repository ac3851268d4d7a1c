#include "caffe/layers/exp_layer.hpp"

#include <cmath>

#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

void Exp::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const ExpParameter& parameter = layer_param().exp_param();
  const double base = parameter.base();
  CAFFE_CHECK(base == -1 || (base > 0 && std::isfinite(base)), Where(), ": base ", base,
              " must be positive, or -1 for e");
  const double log_base = base == -1 ? 1 : std::log(base);
  inner_ = log_base * parameter.scale();
  outer_ = std::exp(log_base * parameter.shift());
  CAFFE_CHECK(std::isfinite(inner_) && std::isfinite(outer_), Where(), ": base ", base, ", scale ",
              parameter.scale(), " and shift ", parameter.shift(), " give no finite factors");
  forward_ = MakeKernel("neuron/exp", "exp_forward");
  backward_ = MakeKernel("neuron/exp", "exp_backward");
}

void Exp::Reshape(const BlobVec& bottom, const BlobVec& top) { top[0]->ReshapeLike(*bottom[0]); }

void Exp::Forward(const BlobVec& bottom, const BlobVec& top) {
  const int64_t count = bottom[0]->count();
  forward_->Launch(count, {count, bottom[0]->Data(), top[0]->MutableData(), inner_, outer_});
}

void Exp::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                   const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  const int64_t count = bottom[0]->count();
  backward_->Launch(count,
                    {count, top[0]->Data(), top[0]->Diff(), bottom[0]->MutableDiff(), inner_});
}

void RegisterExpLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.in_place = true;
  traits.summary = "y = base^(shift + scale x)";
  registry.Add<ExpLayer>("Exp", traits);
}

}  // namespace caffe

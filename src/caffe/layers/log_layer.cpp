#include "caffe/layers/log_layer.hpp"

#include <cmath>

#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

void Log::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const LogParameter& parameter = layer_param().log_param();
  const double base = parameter.base();
  CAFFE_CHECK(base == -1 || (base > 0 && base != 1 && std::isfinite(base)), Where(), ": base ",
              base, " must be positive and not 1, or -1 for e");
  scale_ = parameter.scale();
  shift_ = parameter.shift();
  factor_ = base == -1 ? 1 : 1 / std::log(base);
  input_.SetDevice(device());
  forward_ = MakeKernel("neuron/log", "log_forward");
  backward_ = MakeKernel("neuron/log", "log_backward");
}

void Log::Reshape(const BlobVec& bottom, const BlobVec& top) { top[0]->ReshapeLike(*bottom[0]); }

void Log::Forward(const BlobVec& bottom, const BlobVec& top) {
  input_.Keep(*bottom[0], *top[0], need_backward());
  const int64_t count = bottom[0]->count();
  forward_->Launch(count,
                   {count, bottom[0]->Data(), top[0]->MutableData(), scale_, shift_, factor_});
}

void Log::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                   const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  const int64_t count = bottom[0]->count();
  backward_->Launch(count, {count, input_.Data(*bottom[0], *top[0]), top[0]->Diff(),
                            bottom[0]->MutableDiff(), scale_, shift_, scale_ * factor_});
}

void RegisterLogLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.in_place = true;
  traits.summary = "y = ln(shift + scale x) / ln(base)";
  registry.Add<LogLayer>("Log", traits);
}

}  // namespace caffe

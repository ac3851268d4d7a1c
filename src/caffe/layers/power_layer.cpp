#include "caffe/layers/power_layer.hpp"

#include <cmath>

#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

void Power::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  const PowerParameter& parameter = layer_param().power_param();
  power_ = parameter.power();
  scale_ = parameter.scale();
  shift_ = parameter.shift();
  input_.SetDevice(device());
  const char* forward = power_ * scale_ == 0 ? "power_constant"
                        : power_ == 1        ? "power_linear"
                        : power_ == 2        ? "power_square"
                                             : "power_any";
  const char* backward = !GradientNeedsInput() ? "power_linear"
                         : power_ == 2         ? "power_square_backward"
                                               : "power_any_backward";
  forward_ = MakeKernel("neuron/power", forward);
  backward_ = MakeKernel("neuron/power", backward);
}

void Power::Reshape(const BlobVec& bottom, const BlobVec& top) { top[0]->ReshapeLike(*bottom[0]); }

void Power::Forward(const BlobVec& bottom, const BlobVec& top) {
  const int64_t count = bottom[0]->count();
  if (power_ * scale_ == 0) {
    const double value = power_ == 0 ? 1 : std::pow(shift_, power_);
    forward_->Launch(count, {count, top[0]->MutableData(), value});
    return;
  }
  input_.Keep(*bottom[0], *top[0], need_backward() && GradientNeedsInput());
  std::vector<KernelArgument> arguments{count, bottom[0]->Data(), top[0]->MutableData(), scale_,
                                        shift_};
  if (power_ != 1 && power_ != 2) arguments.push_back(power_);
  forward_->Launch(count, arguments);
}

void Power::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                     const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  const int64_t count = bottom[0]->count();
  const KernelArgument y_diff = top[0]->Diff(), x_diff = bottom[0]->MutableDiff();
  if (!GradientNeedsInput()) {
    backward_->Launch(count, {count, y_diff, x_diff, power_ * scale_, 0.0});
    return;
  }
  std::vector<KernelArgument> arguments{
      count, input_.Data(*bottom[0], *top[0]), y_diff, x_diff, scale_, shift_, power_ * scale_};
  if (power_ != 2) arguments.push_back(power_ - 1);
  backward_->Launch(count, arguments);
}

void RegisterPowerLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.in_place = true;
  traits.summary = "y = (shift + scale x)^power";
  registry.Add<PowerLayer>("Power", traits);
}

}  // namespace caffe

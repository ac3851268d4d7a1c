#include "caffe/layers/softmax_with_loss_layer.hpp"

#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/place_blob.hpp"

namespace caffe {

void SoftmaxWithLoss::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  LossBase::LayerSetUp(bottom, top);
  PlaceBlob(&probabilities_, types().out, device(), {0}, name() + " probabilities");
  forward_rows_ = MakeKernel("loss/softmax_loss", "softmax_loss_forward_rows");
  forward_ = MakeKernel("loss/softmax_loss", "softmax_loss_forward");
  backward_rows_ = MakeKernel("loss/softmax_loss", "softmax_loss_backward_rows");
  backward_ = MakeKernel("loss/softmax_loss", "softmax_loss_backward");
}

void SoftmaxWithLoss::Reshape(const BlobVec& bottom, const BlobVec& top) {
  LossBase::Reshape(bottom, top);
  const int axis = bottom[0]->CanonicalAxisIndex(layer_param().softmax_param().axis());
  outer_ = bottom[0]->count(0, axis);
  channels_ = bottom[0]->shape(axis);
  inner_ = bottom[0]->count(axis + 1);
  CAFFE_CHECK(outer_ * inner_ == bottom[1]->count(), Where(), ": scores of shape ",
              bottom[0]->shape_string(), " along axis ", axis, " need ", outer_ * inner_,
              " labels, there are ", bottom[1]->count());
  Probabilities(top).ReshapeLike(*bottom[0]);
  sum_.Reshape(outer_ * inner_);
}

void SoftmaxWithLoss::Forward(const BlobVec& bottom, const BlobVec& top) {
  const LossParameter& loss = layer_param().loss_param();
  const bool rows = inner_ == 1;
  std::vector<KernelArgument> arguments{outer_, channels_};
  if (!rows) arguments.push_back(inner_);
  arguments.insert(arguments.end(), {loss.has_ignore_label(), loss.ignore_label(),
                                     bottom[0]->Data(), bottom[1]->Data(),
                                     Probabilities(top).MutableData(), sum_.terms().MutableData()});
  if (rows) {
    forward_rows_->Launch(outer_, arguments);
  } else {
    forward_->Launch({outer_, inner_}, arguments);
  }
  sum_.Divide(Divisor(outer_, inner_, LossParameter::VALID), top[0]);
}

void SoftmaxWithLoss::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                               const BlobVec& bottom) {
  CAFFE_CHECK(propagate_down.size() < 2 || !propagate_down[1], Where(),
              ": there is no gradient for labels");
  if (!propagate_down[0]) return;
  const LossParameter& loss = layer_param().loss_param();
  const bool rows = inner_ == 1;
  std::vector<KernelArgument> arguments{outer_, channels_};
  if (!rows) arguments.push_back(inner_);
  arguments.insert(arguments.end(), {loss.has_ignore_label(), loss.ignore_label(),
                                     Probabilities(top).Data(), bottom[1]->Data(), top[0]->Diff(),
                                     sum_.divisor().Data(), bottom[0]->MutableDiff()});
  if (rows) {
    backward_rows_->Launch({outer_, channels_}, arguments);
  } else {
    backward_->Launch({outer_ * channels_, inner_}, arguments);
  }
}

void RegisterSoftmaxWithLossLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 2;
  traits.max_top = 2;
  traits.loss = true;
  traits.float_bottoms = {1};
  traits.no_gradient_bottoms = {1};
  traits.backward_reads = Always({{1}, {1}});
  traits.summary = "-log softmax(x)[label], averaged";
  registry.Add<SoftmaxWithLossLayer>("SoftmaxWithLoss", traits);
}

}  // namespace caffe

#include "caffe/layers/absval_layer.hpp"

#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

void AbsVal::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(bottom[0] != top[0], Where(), ": can not work in place; give blob ",
              bottom[0]->name(), " another name as top");
  forward_ = MakeKernel("neuron/absval", "absval_forward");
  backward_ = MakeKernel("neuron/absval", "absval_backward");
}

void AbsVal::Reshape(const BlobVec& bottom, const BlobVec& top) { top[0]->ReshapeLike(*bottom[0]); }

void AbsVal::Forward(const BlobVec& bottom, const BlobVec& top) {
  const int64_t count = bottom[0]->count();
  forward_->Launch(count, {count, bottom[0]->Data(), top[0]->MutableData()});
}

void AbsVal::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                      const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  const int64_t count = bottom[0]->count();
  backward_->Launch(count, {count, bottom[0]->Data(), top[0]->Diff(), bottom[0]->MutableDiff()});
}

void RegisterAbsValLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.summary = "y = |x|";
  registry.Add<AbsValLayer>("AbsVal", traits);
}

}  // namespace caffe

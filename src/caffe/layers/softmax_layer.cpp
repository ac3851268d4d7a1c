#include "caffe/layers/softmax_layer.hpp"

#include "caffe.pb.h"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

void Softmax::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  forward_rows_ = MakeKernel("norm/softmax", "softmax_forward_rows");
  forward_ = MakeKernel("norm/softmax", "softmax_forward");
  backward_rows_ = MakeKernel("norm/softmax", "softmax_backward_rows");
  backward_ = MakeKernel("norm/softmax", "softmax_backward");
  forward_groups_ = nullptr;
  if (!device()->host_accessible()) {
    forward_groups_ = MakeKernel("norm/softmax_groups", "softmax_forward_groups");
  }
}

void Softmax::Reshape(const BlobVec& bottom, const BlobVec& top) {
  const int axis = bottom[0]->CanonicalAxisIndex(layer_param().softmax_param().axis());
  outer_ = bottom[0]->count(0, axis);
  channels_ = bottom[0]->shape(axis);
  inner_ = bottom[0]->count(axis + 1);
  top[0]->ReshapeLike(*bottom[0]);
}

void Softmax::Forward(const BlobVec& bottom, const BlobVec& top) {
  // A group of work items is not worth its waits for a few classes.
  if (forward_groups_ && inner_ == 1 && channels_ > 64) {
    forward_groups_->LaunchInGroups({{outer_, 1, 1}, {256, 1, 1}},
                                    {channels_, bottom[0]->Data(), top[0]->MutableData()});
  } else if (inner_ == 1) {
    forward_rows_->Launch(outer_, {outer_, channels_, bottom[0]->Data(), top[0]->MutableData()});
  } else {
    forward_->Launch({outer_, inner_},
                     {outer_, channels_, inner_, bottom[0]->Data(), top[0]->MutableData()});
  }
}

void Softmax::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                       const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  if (inner_ == 1) {
    backward_rows_->Launch(
        outer_, {outer_, channels_, top[0]->Data(), top[0]->Diff(), bottom[0]->MutableDiff()});
  } else {
    backward_->Launch({outer_, inner_}, {outer_, channels_, inner_, top[0]->Data(), top[0]->Diff(),
                                         bottom[0]->MutableDiff()});
  }
}

LayerFacts Softmax::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  return facts;
}

void RegisterSoftmaxLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.in_place = true;
  traits.backward_reads = Always({{}, {0}});
  traits.summary = "y = exp(x) / sum of exp(x) along an axis";
  registry.Add<SoftmaxLayer>("Softmax", traits);
}

}  // namespace caffe

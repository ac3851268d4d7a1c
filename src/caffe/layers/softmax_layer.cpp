#include "caffe.pb.h"
#include "caffe/layer/class_scores.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// y = exp(x) / sum of exp(x) along an axis, computed after subtracting the largest x.
//   dE/dx = y (dE/dy - sum of dE/dy y)
// bottom 0, top 0: any shape, the same. In place allowed.
// softmax_param: axis (1).
// Types: float kinds.
class Softmax : public LayerBase, public HasClassScores {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  LayerFacts Facts() const override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  std::optional<ClassScores> class_scores() const override {
    return ClassScores{channels_, inner_};
  }

 private:
  int64_t outer_ = 0, channels_ = 0, inner_ = 0;
  // Kernels for inner = 1, where a row is contiguous, and kernels for the general case.
  std::unique_ptr<Kernel> forward_rows_, forward_, backward_rows_, backward_;
  std::unique_ptr<Kernel> forward_groups_;  // null on the CPU
};

template <class Dtype, class MItype, class MOtype>
using SoftmaxLayer = Layer<Dtype, MItype, MOtype, Softmax>;

void Softmax::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  forward_rows_ = MakeKernel("norm/softmax", "softmax_forward_rows");
  forward_ = MakeKernel("norm/softmax", "softmax_forward");
  backward_rows_ = MakeKernel("norm/softmax", "softmax_backward_rows");
  backward_ = MakeKernel("norm/softmax", "softmax_backward");
  forward_groups_ = nullptr;
}

void Softmax::Reshape(const BlobVec& bottom, const BlobVec& top) {
  const int axis = bottom[0]->CanonicalAxisIndex(layer_param().softmax_param().axis());
  outer_ = bottom[0]->count(0, axis);
  channels_ = bottom[0]->shape(axis);
  inner_ = bottom[0]->count(axis + 1);
  // A group of work items is not worth its waits for a few classes.
  if (device()->has_groups() && inner_ == 1 && channels_ > 64 && !forward_groups_) {
    forward_groups_ = MakeGroupKernel("norm/softmax_groups", "softmax_forward_groups");
  }
  top[0]->ReshapeLike(*bottom[0]);
}

void Softmax::Forward(const BlobVec& bottom, const BlobVec& top) {
  if (forward_groups_ && inner_ == 1 && channels_ > 64) {
    forward_groups_->LaunchInGroups({{outer_, 1, 1}, {forward_groups_->group(), 1, 1}},
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

}  // namespace

void RegisterSoftmaxLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.in_place = true;
  traits.backward_reads = Always({{}, {0}});
  traits.per_item = [](const LayerParameter& layer) { return layer.softmax_param().axis() > 0; };
  traits.probabilities = true;
  traits.summary = "y = exp(x) / sum of exp(x) along an axis";
  registry.Add<SoftmaxLayer>("Softmax", traits);
}

}  // namespace caffe

#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/loss_base.hpp"

namespace caffe {
namespace {

// loss = sum of (a - b)^2 / (2 N) over all elements of N items.
//   dE/da = dE/dloss (a - b) / N,  dE/db = -dE/da
// bottom 0 (a), bottom 1 (b): [N, …] with the same number of elements; top 0: no axes.
// loss_param: under normalization PRE_FIXED pre_fixed_normalizer replaces N; other fields are
// ignored.
// Types: float kinds.
class EuclideanLoss : public LossBase {
 public:
  using LossBase::LossBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;

 private:
  int64_t part_ = 1;  // elements in a term
  std::unique_ptr<Kernel> forward_, backward_;
};

template <class Dtype, class MItype, class MOtype>
using EuclideanLossLayer = Layer<Dtype, MItype, MOtype, EuclideanLoss>;

void EuclideanLoss::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  LossBase::LayerSetUp(bottom, top);
  WarnOfUnusedNormalization();
  forward_ = device()->has_groups()
                 ? MakeGroupKernel("loss/euclidean_groups", "euclidean_forward_groups")
                 : MakeKernel("loss/euclidean", "euclidean_forward");
  backward_ = MakeKernel("loss/euclidean", "euclidean_backward");
}

void EuclideanLoss::Reshape(const BlobVec& bottom, const BlobVec& top) {
  LossBase::Reshape(bottom, top);
  CheckEqualCounts(bottom);
  const int64_t count = bottom[0]->count();
  part_ = forward_->group() > 0 ? GroupTermLength(count) : TermLength(count);
  sum_.Reshape((count + part_ - 1) / part_);
}

void EuclideanLoss::Forward(const BlobVec& bottom, const BlobVec& top) {
  const KernelArguments arguments{sum_.count(),       part_,
                                  bottom[0]->count(), bottom[0]->Data(),
                                  bottom[1]->Data(),  sum_.terms().MutableData()};
  if (forward_->group() == 0) {
    forward_->Launch(sum_.count(), arguments);
  } else if (sum_.count() > 0) {
    LaunchGroups groups;
    groups.groups[0] = sum_.count();
    groups.local[0] = forward_->group();
    forward_->LaunchInGroups(groups, arguments);
  }
  Finish(2 * ItemDivisor(bottom[0]->shape(0)), top[0]);
}

void EuclideanLoss::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                             const BlobVec& bottom) {
  for (int i = 0; i < 2; ++i) {
    if (!propagate_down[i]) continue;
    const double factor = (i == 0 ? 1.0 : -1.0) / ItemDivisor(bottom[0]->shape(0));
    backward_->Launch(bottom[0]->count(), {bottom[0]->count(), bottom[0]->Data(), bottom[1]->Data(),
                                           top[0]->Diff(), bottom[i]->MutableDiff(), factor});
  }
}

}  // namespace

void RegisterEuclideanLossLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 2;
  traits.loss = true;
  traits.backward_reads = Always({{0, 1}, {}});
  traits.summary = "sum of (a - b)^2 / (2 N)";
  registry.Add<EuclideanLossLayer>("EuclideanLoss", traits);
}

}  // namespace caffe

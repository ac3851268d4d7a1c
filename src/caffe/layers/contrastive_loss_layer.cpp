#include "caffe.pb.h"
#include "caffe/layer/channel_sums.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/loss_base.hpp"
#include "caffe/layer/place_blob.hpp"

namespace caffe {
namespace {

// loss = sum over N pairs / (2 N) of
//   d^2               for similar ones (y is not 0),
//   max(m - d, 0)^2   for the others; legacy_version: max(m - d^2, 0)
// with d the Euclidean distance of a and b and the margin m: Hadsell, Chopra, LeCun: Dimensionality
// Reduction by Learning an Invariant Mapping, CVPR 2006, equation 4.
//   dE/da = dE/dloss s (a - b) / N,  dE/db = -dE/da, where s is 1 for similar pairs; for the others
//   0 beyond the margin, else -(m - d) / (d + 10^-4), legacy_version: -1
// bottom 0 (a), bottom 1 (b): [N, …] with the same number of elements; bottom 2 (y): N numbers,
// always float, truncated to integers, no gradient; one that is not finite is an error (CheckData).
// top 0: no axes.
// contrastive_loss_param: margin (1), legacy_version (false). loss_param: under normalization
// PRE_FIXED, pre_fixed_normalizer stands for N; nothing else is read.
// Types: float kinds.
class ContrastiveLoss : public LossBase {
 public:
  using LossBase::LossBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  void CheckData() override;

 private:
  ChannelSums sums_;
  std::shared_ptr<BlobBase> squares_;  // d^2 of each pair
  std::unique_ptr<Kernel> distances_, terms_, backward_;
};

template <class Dtype, class MItype, class MOtype>
using ContrastiveLossLayer = Layer<Dtype, MItype, MOtype, ContrastiveLoss>;

void ContrastiveLoss::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  LossBase::LayerSetUp(bottom, top);
  WarnOfUnusedNormalization();
  const DataType sum_type = sum_.terms().type();
  sums_ = ChannelSums(&workspace(), types(), sum_type);
  PlaceBlob(&squares_, sum_type, device(), {0}, name() + " squared distances");
  distances_ = MakeKernel("loss/contrastive", "contrastive_distances");
  terms_ = MakeKernel("loss/contrastive", "contrastive_terms");
  backward_ = MakeKernel("loss/contrastive", "contrastive_backward");
}

void ContrastiveLoss::Reshape(const BlobVec& bottom, const BlobVec& top) {
  LossBase::Reshape(bottom, top);
  CheckEqualCounts(bottom);
  const int64_t pairs = bottom[0]->shape(0);
  CAFFE_CHECK(bottom[2]->count() == pairs, Where(),
              ": bottom 2 must have one value for each of the ", pairs, " pairs; its shape is ",
              bottom[2]->shape_string());
  // ChannelSums' channels are pairs here.
  sums_.Reshape(1, pairs, bottom[0]->count(1), true);
  squares_->Reshape({pairs});
  sum_.Reshape(pairs);
}

void ContrastiveLoss::Forward(const BlobVec& bottom, const BlobVec& top) {
  const ContrastiveLossParameter& parameter = layer_param().contrastive_loss_param();
  const int64_t pairs = sum_.count();
  sums_.Launch(distances_.get(), {bottom[0]->Data(), bottom[1]->Data()});
  sums_.Finish(false, squares_->MutableData());
  terms_->Launch(pairs, {pairs, parameter.legacy_version(), double{parameter.margin()},
                         squares_->Data(), bottom[2]->Data(), sum_.terms().MutableData()});
  Finish(2 * ItemDivisor(pairs), top[0]);
}

void ContrastiveLoss::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                               const BlobVec& bottom) {
  CAFFE_CHECK(propagate_down.size() < 3 || !propagate_down[2], Where(),
              ": there is no gradient for labels");
  const ContrastiveLossParameter& parameter = layer_param().contrastive_loss_param();
  const int64_t pairs = sum_.count(), length = bottom[0]->count(1);
  for (int i = 0; i < 2; ++i) {
    if (!propagate_down[i]) continue;
    const double factor = (i == 0 ? 1.0 : -1.0) / ItemDivisor(pairs);
    backward_->Launch({pairs, length},
                      {pairs, length, parameter.legacy_version(), double{parameter.margin()},
                       factor, bottom[0]->Data(), bottom[1]->Data(), squares_->Data(),
                       bottom[2]->Data(), top[0]->Diff(), bottom[i]->MutableDiff()});
  }
}

void ContrastiveLoss::CheckData() {
  const auto invalid = sum_.TakeInvalid();
  CAFFE_CHECK(!invalid, Where(), ": label ", invalid->value, " of pair ", invalid->index,
              " is not finite; it must be 0 for a dissimilar pair and 1 for a similar one");
}

}  // namespace

void RegisterContrastiveLossLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 3;
  traits.loss = true;
  traits.float_bottoms = {2};
  traits.no_gradient_bottoms = {2};
  traits.backward_reads = Always({{0, 1, 2}, {}});
  traits.summary = "d^2 of similar pairs, max(margin - d, 0)^2 of others, / (2 N)";
  registry.Add<ContrastiveLossLayer>("ContrastiveLoss", traits);
}

}  // namespace caffe

#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/loss_base.hpp"

namespace caffe {
namespace {

// loss = sum of v f(u (a - b)) / N with f(d) = (sigma d)^2 / 2 where |d| < 1 / sigma^2, else
// |d| - 1 / (2 sigma^2): Girshick: Fast R-CNN, ICCV 2015, equation 3; sigma as in its code.
//   dE/da = dE/dloss v u f'(u (a - b)) / N,  dE/db = -dE/da
// bottom 0 (a), bottom 1 (b): [N, …]; bottom 2 (u, optional): inside weights; bottom 3 (v,
// optional): outside weights; all with the same number of elements. u and v are always float and
// have no gradient.
// top 0: no axes.
// smooth_l1_loss_param: sigma (1). loss_param: under normalization PRE_FIXED, pre_fixed_normalizer
// replaces N; no other field is read.
// Types: float kinds.
class SmoothL1Loss : public LossBase {
 public:
  using LossBase::LossBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;

 private:
  // The arguments of both kernels after the first ones.
  KernelArguments Arguments(const BlobVec& bottom) const;

  int64_t part_ = 1;  // elements in a term
  std::unique_ptr<Kernel> forward_, backward_;
};

template <class Dtype, class MItype, class MOtype>
using SmoothL1LossLayer = Layer<Dtype, MItype, MOtype, SmoothL1Loss>;

void SmoothL1Loss::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  LossBase::LayerSetUp(bottom, top);
  WarnOfUnusedNormalization();
  const float sigma = layer_param().smooth_l1_loss_param().sigma();
  CAFFE_CHECK(sigma > 0, Where(), ": sigma must be positive; it is ", sigma);
  forward_ = MakeKernel("loss/smooth_l1", "smooth_l1_forward");
  backward_ = MakeKernel("loss/smooth_l1", "smooth_l1_backward");
}

void SmoothL1Loss::Reshape(const BlobVec& bottom, const BlobVec& top) {
  LossBase::Reshape(bottom, top);
  CheckEqualCounts(bottom);
  for (size_t i = 2; i < bottom.size(); ++i) {
    CAFFE_CHECK(bottom[i]->count() == bottom[0]->count(), Where(), ": the ",
                i == 2 ? "inside" : "outside", " weights must have the shape of bottom 0, ",
                bottom[0]->shape_string(), "; they have ", bottom[i]->shape_string());
  }
  part_ = TermLength(bottom[0]->count());
  sum_.Reshape((bottom[0]->count() + part_ - 1) / part_);
}

KernelArguments SmoothL1Loss::Arguments(const BlobVec& bottom) const {
  const double sigma = layer_param().smooth_l1_loss_param().sigma();
  // A placeholder for missing weights; kernels do not read it.
  const KernelArgument none = sum_.divisor().Data();
  return {bottom[0]->count(),
          bottom.size() - 2,
          sigma * sigma,
          bottom[0]->Data(),
          bottom[1]->Data(),
          bottom.size() > 2 ? bottom[2]->Data() : none,
          bottom.size() > 3 ? bottom[3]->Data() : none};
}

void SmoothL1Loss::Forward(const BlobVec& bottom, const BlobVec& top) {
  KernelArguments arguments{sum_.count(), part_};
  for (const KernelArgument& argument : Arguments(bottom)) arguments.push_back(argument);
  arguments.push_back(sum_.terms().MutableData());
  forward_->Launch(sum_.count(), arguments);
  Finish(ItemDivisor(bottom[0]->shape(0)), top[0]);
}

void SmoothL1Loss::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                            const BlobVec& bottom) {
  for (int i = 0; i < static_cast<int>(propagate_down.size()); ++i) {
    if (!propagate_down[i]) continue;
    CAFFE_CHECK(i < 2, Where(), ": there is no gradient for weights");
    const double factor = (i == 0 ? 1.0 : -1.0) / ItemDivisor(bottom[0]->shape(0));
    KernelArguments arguments = Arguments(bottom);
    arguments.append({top[0]->Diff(), bottom[i]->MutableDiff(), factor});
    backward_->Launch(bottom[0]->count(), arguments);
  }
}

}  // namespace

void RegisterSmoothL1LossLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = 2;
  traits.max_bottom = 4;
  traits.loss = true;
  traits.float_bottoms = {2, 3};
  traits.no_gradient_bottoms = {2, 3};
  traits.backward_reads = Always({{0, 1, 2, 3}, {}});
  traits.summary = "a - b squared near 0, its absolute value beyond, / N (Fast R-CNN)";
  registry.Add<SmoothL1LossLayer>("SmoothL1Loss", traits);
}

}  // namespace caffe

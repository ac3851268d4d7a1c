#include <algorithm>

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
// SmoothL1LossOHEM (R-FCN) is the same loss of bottoms [N, C, …], with two differences. The divisor
// follows normalization and normalize: VALID (the default) and FULL are the number of elements
// without the channels. top 1 (optional): the sum of f(u (a - b)) over the channels, [N, 1, …]; it
// is float in nets of every type, without a gradient.
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
  double LossDivisor(const BlobVec& bottom) const;
  virtual bool mines() const { return false; }

  int64_t part_ = 1;  // elements in a term
  std::unique_ptr<Kernel> forward_, backward_;
  std::unique_ptr<Kernel> losses_;  // of items, for top 1
};

class SmoothL1LossOhem : public SmoothL1Loss {
 public:
  using SmoothL1Loss::SmoothL1Loss;

 private:
  bool mines() const override { return true; }
};

template <class Dtype, class MItype, class MOtype>
using SmoothL1LossLayer = Layer<Dtype, MItype, MOtype, SmoothL1Loss>;
template <class Dtype, class MItype, class MOtype>
using SmoothL1LossOhemLayer = Layer<Dtype, MItype, MOtype, SmoothL1LossOhem>;

void SmoothL1Loss::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  LossBase::LayerSetUp(bottom, top);
  if (!mines()) WarnOfUnusedNormalization();
  const float sigma = layer_param().smooth_l1_loss_param().sigma();
  CAFFE_CHECK(sigma > 0, Where(), ": sigma must be positive; it is ", sigma);
  forward_ = MakeKernel("loss/smooth_l1", "smooth_l1_forward");
  backward_ = MakeKernel("loss/smooth_l1", "smooth_l1_backward");
  if (top.size() > 1) losses_ = MakeKernel("box/ohem", "ohem_smooth_l1");
}

double SmoothL1Loss::LossDivisor(const BlobVec& bottom) const {
  if (!mines()) return ItemDivisor(bottom[0]->shape(0));
  const int64_t items = bottom[0]->shape(0), inner = bottom[0]->count(2);
  // Without labels all items are valid.
  const double divisor = Divisor(items, inner, LossParameter::VALID);
  return std::max(1.0, divisor > 0 ? divisor : static_cast<double>(items * inner));
}

void SmoothL1Loss::Reshape(const BlobVec& bottom, const BlobVec& top) {
  LossBase::Reshape(bottom, top);
  CheckEqualCounts(bottom);
  for (size_t i = 2; i < bottom.size(); ++i) {
    CAFFE_CHECK(bottom[i]->count() == bottom[0]->count(), Where(), ": the ",
                i == 2 ? "inside" : "outside", " weights must have the shape of bottom 0, ",
                bottom[0]->shape_string(), "; they have ", bottom[i]->shape_string());
  }
  if (mines()) {
    CAFFE_CHECK(bottom[0]->num_axes() >= 2, Where(), ": needs bottoms of at least 2 axes, not of ",
                "shape ", bottom[0]->shape_string());
  }
  if (top.size() > 1) {
    Shape shape = bottom[0]->shape();
    shape[1] = 1;
    top[1]->Reshape(shape);
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
  if (top.size() > 1) {
    const double sigma = layer_param().smooth_l1_loss_param().sigma();
    const int64_t outer = bottom[0]->shape(0), inner = bottom[0]->count(2);
    losses_->Launch({outer, inner}, {outer, bottom[0]->shape(1), inner, bottom.size() - 2,
                                     sigma * sigma, bottom[0]->Data(), bottom[1]->Data(),
                                     bottom.size() > 2 ? bottom[2]->Data() : sum_.divisor().Data(),
                                     top[1]->MutableData()});
  }
  Finish(LossDivisor(bottom), top[0]);
}

void SmoothL1Loss::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                            const BlobVec& bottom) {
  for (int i = 0; i < static_cast<int>(propagate_down.size()); ++i) {
    if (!propagate_down[i]) continue;
    CAFFE_CHECK(i < 2, Where(), ": there is no gradient for weights");
    const double factor = (i == 0 ? 1.0 : -1.0) / LossDivisor(bottom);
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
  traits.max_top = 2;
  traits.float_tops = {1};
  traits.summary = "SmoothL1Loss, with the loss of each region as a top (R-FCN)";
  registry.Add<SmoothL1LossOhemLayer>("SmoothL1LossOHEM", traits);
}

}  // namespace caffe

#include "caffe/layers/smooth_l1_loss_layer.hpp"

#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

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

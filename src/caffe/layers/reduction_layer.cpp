#include "caffe/layers/reduction_layer.hpp"

#include "caffe.pb.h"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

void Reduction::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(top[0] != bottom[0], Where(), ": cannot work in place; give blob ", bottom[0]->name(),
              " another name as top");
  const ReductionParameter& parameter = layer_param().reduction_param();
  coeff_ = parameter.coeff();
  mean_ = reads_bottom_ = false;
  derivative_ = 1;
  const char* kernel = "reduction_sum";
  switch (parameter.operation()) {
    case ReductionParameter::SUM: break;
    case ReductionParameter::MEAN: mean_ = true; break;
    case ReductionParameter::ASUM:
      kernel = "reduction_asum";
      reads_bottom_ = true;
      break;
    case ReductionParameter::SUMSQ:
      kernel = "reduction_sumsq";
      reads_bottom_ = true;
      derivative_ = 2;
      break;
  }
  forward_ = MakeKernel("blas/reduction", kernel);
  backward_ = MakeKernel("blas/reduction", std::string(kernel) + "_backward");
  sums_ = ChannelSums(&workspace(), types(), types().out);
}

void Reduction::Reshape(const BlobVec& bottom, const BlobVec& top) {
  const Shape& shape = bottom[0]->shape();
  CAFFE_CHECK(!shape.empty(), Where(), ": blob ", bottom[0]->name(), " has no axes to reduce");
  const int axis = CanonicalAxis(shape, layer_param().reduction_param().axis(), Where());
  const int64_t sums = bottom[0]->count(0, axis);
  summed_ = bottom[0]->count(axis);
  top[0]->Reshape(Shape(shape.begin(), shape.begin() + axis));
  // Rows share a single sum.
  const int64_t outer = sums == 1 ? shape[axis] : 1, inner = bottom[0]->count(axis + 1);
  sums_.Reshape(outer, sums, sums == 1 ? inner : summed_, true);
  rows_ = sums == 1 ? outer : sums;
  columns_ = sums == 1 ? inner : summed_;
  y_stride_ = sums == 1 ? 0 : 1;
}

double Reduction::Factor() const { return mean_ ? coeff_ / static_cast<double>(summed_) : coeff_; }

void Reduction::Forward(const BlobVec& bottom, const BlobVec& top) {
  sums_.Launch(forward_.get(), {bottom[0]->Data(), Factor()});
  sums_.Finish(false, top[0]->MutableData());
}

void Reduction::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                         const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  KernelArguments arguments{rows_, columns_, y_stride_};
  if (reads_bottom_) arguments.push_back(bottom[0]->Data());
  arguments.append({top[0]->Diff(), Factor() * derivative_, bottom[0]->MutableDiff()});
  backward_->Launch({rows_, columns_}, arguments);
}

LayerFacts Reduction::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  return facts;
}

void RegisterReductionLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.backward_reads = [](const LayerParameter& layer) -> BackwardReads {
    const auto operation = layer.reduction_param().operation();
    if (operation == ReductionParameter::SUM || operation == ReductionParameter::MEAN) return {};
    return {{0}, {}};
  };
  traits.summary = "sum, mean, sum of |x| or of x^2 over the last axes";
  registry.Add<ReductionLayer>("Reduction", traits);
}

}  // namespace caffe

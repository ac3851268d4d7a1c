#include "caffe.pb.h"
#include "caffe/layer/channel_sums.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// y = coeff times the sum over all axes from `axis` on of
//   SUM: x    ASUM: |x|    SUMSQ: x^2    MEAN: x / count, count being that of the summed elements
//   dE/dx = coeff dE/dy times 1, sign(x) (0 where x is 0), 2 x, 1 / count
// Sums are taken in float (double for double), in an order that depends on shape and device only.
// bottom 0: any shape with at least one axis; top 0: the axes before `axis`, none for axis 0.
// reduction_param: operation (SUM), axis (0, from the end if negative), coeff (1).
// Types: float kinds.
class Reduction : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  // The factor of each element of the sum.
  double Factor() const;

  bool mean_ = false, reads_bottom_ = false;
  int64_t rows_ = 0, columns_ = 0;  // the bottom as a matrix, for the gradient
  int64_t y_stride_ = 0;  // 1 if each row has its own element of the top, 0 if all share one
  int64_t summed_ = 0;    // elements of one sum
  double coeff_ = 1;
  double derivative_ = 1;  // factor of the derivative: 2 for SUMSQ
  ChannelSums sums_;
  std::unique_ptr<Kernel> forward_, backward_;
};

template <class Dtype, class MItype, class MOtype>
using ReductionLayer = Layer<Dtype, MItype, MOtype, Reduction>;

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

}  // namespace

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

#include <algorithm>

#include "caffe.pb.h"
#include "caffe/layer/channel_sums.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// y = a x + b, with one factor a for each channel of each item (Hu et al., Squeeze-and-Excitation
// Networks, arXiv 1709.01507): Scale and Eltwise SUM in one layer.
//   dE/da = the sum over the channel of x dE/dy,  dE/dx = a dE/dy,  dE/db = dE/dy
// bottom 0: a [N, C], further axes are of one element; bottom 1: x [N, C, …]; bottom 2: b, like x;
// top 0: like x. Not in place.
// Types: float kinds. Sums are taken in float (double for double), in an order that depends on
// shape and device only.
class Axpy : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  int64_t rows_ = 0, columns_ = 0;  // N C, elements of a channel
  ChannelSums sums_;
  std::unique_ptr<Kernel> forward_, backward_;
};

template <class Dtype, class MItype, class MOtype>
using AxpyLayer = Layer<Dtype, MItype, MOtype, Axpy>;

void Axpy::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(std::find(bottom.begin(), bottom.end(), top[0]) == bottom.end(), Where(),
              ": cannot work in place; give blob ", top[0]->name(), " another name as top");
  forward_ = MakeKernel("blas/axpy", "axpy_forward");
  backward_ = MakeKernel("blas/axpy", "axpy_backward");
  sums_ = ChannelSums(&workspace(), types(), types().in);
}

void Axpy::Reshape(const BlobVec& bottom, const BlobVec& top) {
  const Shape &a = bottom[0]->shape(), &x = bottom[1]->shape();
  CAFFE_CHECK(x.size() >= 2, Where(), ": bottom 1 must have at least 2 axes; it has shape ",
              ShapeString(x));
  CAFFE_CHECK(bottom[2]->shape() == x, Where(), ": bottom 2 must have the shape of bottom 1, ",
              ShapeString(x), "; it has shape ", bottom[2]->shape_string());
  CAFFE_CHECK(a.size() >= 2 && a[0] == x[0] && a[1] == x[1] && bottom[0]->count(2) == 1, Where(),
              ": bottom 0 must have one element for each of the ", x[0], " x ", x[1],
              " channels of bottom 1, as ", x[0], " ", x[1], " or ", x[0], " ", x[1],
              " 1 1; it has shape ", ShapeString(a));
  rows_ = bottom[1]->count(0, 2);
  columns_ = bottom[1]->count(2);
  sums_.Reshape(1, rows_, columns_, phase() == TRAIN);
  top[0]->Reshape(x);
}

void Axpy::Forward(const BlobVec& bottom, const BlobVec& top) {
  forward_->Launch({rows_, columns_}, {rows_, columns_, bottom[0]->Data(), bottom[1]->Data(),
                                       bottom[2]->Data(), top[0]->MutableData()});
}

void Axpy::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                    const BlobVec& bottom) {
  const KernelArgument y_diff = top[0]->Diff();
  if (propagate_down[0]) {
    sums_.Dot(bottom[1]->Data(), y_diff);
    sums_.Finish(false, bottom[0]->MutableDiff());
  }
  if (propagate_down[1]) {
    backward_->Launch({rows_, columns_},
                      {rows_, columns_, bottom[0]->Data(), y_diff, bottom[1]->MutableDiff()});
  }
  if (propagate_down[2] && top[0]->count() > 0) {
    device()->Copy(bottom[2]->mutable_device_diff(), top[0]->device_diff(), top[0]->bytes());
  }
}

LayerFacts Axpy::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  return facts;
}

}  // namespace

void RegisterAxpyLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 3;
  traits.backward_reads = Always({{0, 1}, {}});
  traits.summary = "y = a x + b with a factor a for each channel of each item";
  registry.Add<AxpyLayer>("Axpy", traits);
}

}  // namespace caffe

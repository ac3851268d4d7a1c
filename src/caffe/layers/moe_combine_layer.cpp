#include "caffe.pb.h"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/layer/place_blob.hpp"

namespace caffe {
namespace {

// One of the layers that compute a MOE layer, see MOERoute: the weighted sums of the experts' rows.
//   y[n] = sum over k of weights[n, k] x[slots[n, k]], without the k whose slot is -1
//   dE/dx[r] = weights[rows[r]] dE/dy[rows[r] / K];  dE/dweights[n, k] = <dE/dy[n], x[slots[n, k]]>
// bottom 0: x [rows, …]; bottom 1: weights [N, K]; bottom 2: slots [N, K]; bottom 3: rows. Slots
// and rows are always float.
// top 0: [N, …]. Not in place. Rows that no item uses are not read.
// Types: float kinds.
class MOECombine : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  int64_t items_ = 0, columns_ = 0, rows_ = 0, select_ = 0, lanes_ = 1;
  std::shared_ptr<BlobBase> parts_;  // of the gradients of the weights
  std::unique_ptr<Kernel> forward_, backward_, weight_parts_, weight_sums_;
};

template <class Dtype, class MItype, class MOtype>
using MOECombineLayer = Layer<Dtype, MItype, MOtype, MOECombine>;

void MOECombine::LayerSetUp(const BlobVec&, const BlobVec&) {
  const auto make = [&](const char* kernel) { return MakeKernel("moe/combine", kernel); };
  forward_ = make("moe_combine");
  backward_ = make("moe_combine_backward");
  weight_parts_ = make("moe_combine_weight_parts");
  weight_sums_ = make("moe_combine_weight_sums");
  PlaceBlob(&parts_, master_type(), device(), {0}, name() + " parts of the weights' gradients");
  lanes_ = device()->has_groups() ? 32 : 1;
}

void MOECombine::Reshape(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(bottom[1]->num_axes() == 2 && bottom[1]->shape() == bottom[2]->shape(), Where(),
              ": weights of shape ", bottom[1]->shape_string(), " and slots of shape ",
              bottom[2]->shape_string(), " are not of one routing");
  rows_ = bottom[3]->count();
  CAFFE_CHECK(bottom[0]->num_axes() > 0 && bottom[0]->shape(0) == rows_, Where(), ": blob ",
              bottom[0]->name(), " has shape ", bottom[0]->shape_string(), ", but the routing has ",
              rows_, " rows");
  items_ = bottom[1]->shape(0);
  select_ = bottom[1]->shape(1);
  columns_ = bottom[0]->count(1);
  Shape shape = bottom[0]->shape();
  shape[0] = items_;
  top[0]->Reshape(shape);
  if (phase() == TRAIN) parts_->Reshape({items_ * select_, lanes_});
}

void MOECombine::Forward(const BlobVec& bottom, const BlobVec& top) {
  forward_->Launch({items_, columns_},
                   {items_, columns_, select_, rows_, bottom[0]->Data(), bottom[1]->Data(),
                    bottom[2]->Data(), top[0]->MutableData()});
}

void MOECombine::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                          const BlobVec& bottom) {
  if (propagate_down[1]) {
    const int64_t pairs = items_ * select_;
    parts_->Reshape({pairs, lanes_});
    weight_parts_->Launch(
        pairs * lanes_, {pairs, columns_, select_, lanes_, rows_, top[0]->Diff(), bottom[0]->Data(),
                         bottom[2]->Data(), parts_->MutableData()});
    weight_sums_->Launch(pairs, {pairs, lanes_, parts_->Data(), bottom[1]->MutableDiff()});
  }
  if (propagate_down[0]) {
    backward_->Launch({rows_, columns_},
                      {rows_, columns_, select_, items_ * select_, top[0]->Diff(),
                       bottom[1]->Data(), bottom[3]->Data(), bottom[0]->MutableDiff()});
  }
}

LayerFacts MOECombine::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  // A row of elements in any order is one of the top.
  facts.layouts.any = true;
  facts.layouts.bottoms = 1;
  return facts;
}

}  // namespace

void RegisterMOECombineLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 4;
  traits.float_bottoms = {2, 3};
  traits.no_gradient_bottoms = {2, 3};
  traits.backward_reads = Always({{0, 1, 2, 3}, {}});
  traits.summary = "a part of MOE: the weighted sums of the experts' rows";
  registry.Add<MOECombineLayer>("MOECombine", traits);
}

}  // namespace caffe

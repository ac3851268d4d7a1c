#include "caffe.pb.h"
#include "caffe/device/device.hpp"
#include "caffe/layer/invalid_item.hpp"
#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// y[n] = x[n, index[n]].
//   dE/dx[n, c] = dE/dy[n] if c = index[n], else 0
// bottom 0: x [N, C]; bottom 1: index [N], whole numbers in [0, C), which have no gradient; top 0:
// y [N]. Not in place.
// Types: float kinds; the index is float.
class Pick : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;
  // Throws if an index is not a column; on a device such an item is NaN.
  void CheckData() override;

 private:
  int64_t rows_ = 0, columns_ = 0;
  InvalidItem invalid_;
  std::unique_ptr<Kernel> forward_, backward_, check_;
};

template <class Dtype, class MItype, class MOtype>
using PickLayer = Layer<Dtype, MItype, MOtype, Pick>;

void Pick::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  invalid_.Place(device(), name());
  forward_ = MakeKernel("loss/pick", "pick_forward");
  backward_ = MakeKernel("loss/pick", "pick_backward");
  check_ = MakeKernel("loss/pick", "pick_check");
}

void Pick::Reshape(const BlobVec& bottom, const BlobVec& top) {
  CAFFE_CHECK(bottom[0]->num_axes() == 2, Where(), ": needs a bottom of 2 axes, not of shape ",
              bottom[0]->shape_string());
  rows_ = bottom[0]->shape(0);
  columns_ = bottom[0]->shape(1);
  CAFFE_CHECK(bottom[1]->shape() == Shape{rows_}, Where(), ": needs an index for each of the ",
              rows_, " items; bottom 1 has shape ", bottom[1]->shape_string());
  top[0]->Reshape({rows_});
}

void Pick::Forward(const BlobVec& bottom, const BlobVec& top) {
  forward_->Launch(rows_,
                   {rows_, columns_, bottom[0]->Data(), bottom[1]->Data(), top[0]->MutableData()});
  check_->Launch(1, {1, rows_, columns_, bottom[1]->Data(), invalid_.MutableData()});
  if (device()->host_accessible()) CheckData();
}

void Pick::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                    const BlobVec& bottom) {
  if (!propagate_down[0]) return;
  backward_->Launch({rows_, columns_},
                    {rows_, columns_, top[0]->Diff(), bottom[1]->Data(), bottom[0]->MutableDiff()});
}

void Pick::CheckData() {
  const auto item = invalid_.Take();
  if (!item) return;
  CAFFE_THROW(Where(), ": the index of item ", item->index, " is ", item->value,
              ", not a whole number in [0, ", columns_, ")");
}

LayerFacts Pick::Facts() const {
  LayerFacts facts;
  // A forward also records invalid data, which the host reads in CheckData.
  facts.replayable = phase() == TRAIN;
  return facts;
}

}  // namespace

void RegisterPickLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 2;
  traits.float_bottoms = {1};
  traits.no_gradient_bottoms = {1};
  traits.backward_reads = Always({{1}, {}});
  traits.per_item = Always(true);
  traits.summary = "y = x[index], one value of each row";
  registry.Add<PickLayer>("Pick", traits);
}

}  // namespace caffe

#include <algorithm>

#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// One step of GRU (Cho et al. 2014, arXiv 1406.1078), in the variant that multiplies by r after the
// product with the weights:
//   r = sigmoid(a_r + b_r), z = sigmoid(a_z + b_z), n = tanh(a_n + r b_n)
//   h = (1 - z) n + z cont h_before
// where a = bottom 1 and b = cont bottom 3.
// bottom 0: h_before [1, N, H]; bottom 1: gates [1, N, 3H], the parts r, z, n; bottom 2: cont [1,
// N];
// bottom 3: [1, N, 3H]. top 0: h [1, N, H]. Not in place.
// No gradient of cont. Where cont is 0, h_before and bottom 3 may be anything.
// Types: float kinds; cont is float.
class GRUUnit : public LayerBase {
 public:
  using LayerBase::LayerBase;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override;
  void Reshape(const BlobVec& bottom, const BlobVec& top) override;
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
  LayerFacts Facts() const override;

 private:
  int64_t rows_ = 0, columns_ = 0;  // N, H
  std::unique_ptr<Kernel> forward_, backward_;
};

template <class Dtype, class MItype, class MOtype>
using GRUUnitLayer = Layer<Dtype, MItype, MOtype, GRUUnit>;

void GRUUnit::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  for (const BlobBase* blob : top) {
    CAFFE_CHECK(std::find(bottom.begin(), bottom.end(), blob) == bottom.end(), Where(),
                ": does not work in place");
  }
  forward_ = MakeKernel("neuron/gru_unit", "gru_unit_forward");
  backward_ = MakeKernel("neuron/gru_unit", "gru_unit_backward");
}

void GRUUnit::Reshape(const BlobVec& bottom, const BlobVec& top) {
  const Shape& state = bottom[0]->shape();
  CAFFE_CHECK(state.size() == 3 && state[0] == 1, Where(), ": bottom 0 must have the shape 1 N H; ",
              "it has shape ", ShapeString(state));
  rows_ = state[1];
  columns_ = state[2];
  const Shape gates{1, rows_, 3 * columns_};
  for (const size_t b : {1, 3}) {
    CAFFE_CHECK(b >= bottom.size() || bottom[b]->shape() == gates, Where(), ": bottom ", b,
                " must have the shape ", ShapeString(gates), ", 3 gates of bottom 0; it has shape ",
                bottom[b]->shape_string());
  }
  CAFFE_CHECK(bottom[2]->shape() == Shape({1, rows_}), Where(), ": cont must have the shape 1 ",
              rows_, "; it has shape ", bottom[2]->shape_string());
  for (BlobBase* blob : top) blob->Reshape(state);
}

void GRUUnit::Forward(const BlobVec& bottom, const BlobVec& top) {
  forward_->Launch({rows_, columns_},
                   {rows_, columns_, bottom[0]->Data(), bottom[1]->Data(), bottom[2]->Data(),
                    bottom[3]->Data(), top[0]->MutableData()});
}

void GRUUnit::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                       const BlobVec& bottom) {
  const auto& wanted = propagate_down;
  // A diff that is not wanted is not written: any other array stands for it.
  const int any = wanted[1] ? 1 : wanted[3] ? 3 : 0;
  if (!wanted[any]) return;
  const auto diff = [&](int b) { return bottom[wanted[b] ? b : any]->MutableDiff(); };
  backward_->Launch({rows_, columns_},
                    {rows_, columns_, wanted[0] ? 1 : 0, wanted[1] ? 1 : 0, wanted[3] ? 1 : 0,
                     bottom[0]->Data(), bottom[1]->Data(), bottom[2]->Data(), bottom[3]->Data(),
                     top[0]->Diff(), diff(0), diff(1), diff(3)});
}

LayerFacts GRUUnit::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  return facts;
}

}  // namespace

void RegisterGRUUnitLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = traits.max_bottom = 4;
  traits.backward_reads = Always({{BackwardReads::kAll}, {}});
  traits.float_bottoms = {2};
  traits.no_gradient_bottoms = {2};
  traits.summary = "one step of GRU";
  registry.Add<GRUUnitLayer>("GRUUnit", traits);
}

}  // namespace caffe

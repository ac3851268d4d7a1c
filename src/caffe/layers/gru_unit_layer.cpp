#include "caffe/layer/layer_registry.hpp"
#include "recurrent_unit.hpp"

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
class GRUUnit : public RecurrentUnit {
 public:
  using RecurrentUnit::RecurrentUnit;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override {
    SetUp(bottom, top, "gru_unit", 3);
  }
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
};

template <class Dtype, class MItype, class MOtype>
using GRUUnitLayer = Layer<Dtype, MItype, MOtype, GRUUnit>;

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

}  // namespace

void RegisterGRUUnitLayer(LayerRegistry& registry) {
  LayerTraits traits = RecurrentUnit::Traits();
  traits.backward_reads = Always({{BackwardReads::kAll}, {}});
  traits.summary = "one step of GRU";
  registry.Add<GRUUnitLayer>("GRUUnit", traits);
}

}  // namespace caffe

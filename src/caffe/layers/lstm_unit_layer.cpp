#include "caffe/layer/layer_registry.hpp"
#include "recurrent_unit.hpp"

namespace caffe {
namespace {

// One step of LSTM (Hochreiter and Schmidhuber 1997), as in BVLC's Caffe:
//   i = sigmoid(a_i), f = sigmoid(a_f), o = sigmoid(a_o), g = tanh(a_g)
//   c = cont f c_before + i g,  h = o tanh(c)
// where a = bottom 1, and with bottom 3: a = bottom 1 + cont bottom 3.
// bottom 0: c_before [1, N, H]; bottom 1: gates [1, N, 4H], the parts i, f, o, g; bottom 2: cont
// [1, N]; optional bottom 3: [1, N, 4H]. top 0: c [1, N, H]; top 1: h [1, N, H]. Not in place.
// dE/dc_total = dE/dc + o (1 - tanh(c)^2) dE/dh,  dE/dc_before = cont f dE/dc_total
// No gradient of cont. Where cont is 0, c_before and bottom 3 may be anything.
// Types: float kinds; cont is float.
class LSTMUnit : public RecurrentUnit {
 public:
  using RecurrentUnit::RecurrentUnit;
  void LayerSetUp(const BlobVec& bottom, const BlobVec& top) override {
    SetUp(bottom, top, "lstm_unit", 4);
  }
  void Forward(const BlobVec& bottom, const BlobVec& top) override;
  void Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                const BlobVec& bottom) override;
};

template <class Dtype, class MItype, class MOtype>
using LSTMUnitLayer = Layer<Dtype, MItype, MOtype, LSTMUnit>;

void LSTMUnit::Forward(const BlobVec& bottom, const BlobVec& top) {
  const bool recurrent = bottom.size() > 3;
  forward_->Launch(
      {rows_, columns_},
      {rows_, columns_, recurrent ? 1 : 0, bottom[0]->Data(), bottom[1]->Data(), bottom[2]->Data(),
       bottom[recurrent ? 3 : 1]->Data(), top[0]->MutableData(), top[1]->MutableData()});
}

void LSTMUnit::Backward(const BlobVec& top, const std::vector<bool>& propagate_down,
                        const BlobVec& bottom) {
  const bool recurrent = bottom.size() > 3;
  const auto wanted = [&](size_t b) { return b < bottom.size() && propagate_down[b]; };
  // A diff that is not wanted is not written: any other array stands for it.
  const size_t any = wanted(1) ? 1 : wanted(3) ? 3 : 0;
  if (!wanted(any)) return;
  const auto diff = [&](size_t b) { return bottom[wanted(b) ? b : any]->MutableDiff(); };
  backward_->Launch(
      {rows_, columns_},
      {rows_, columns_, recurrent ? 1 : 0, wanted(0) ? 1 : 0, wanted(1) ? 1 : 0, wanted(3) ? 1 : 0,
       bottom[0]->Data(), bottom[1]->Data(), bottom[2]->Data(), bottom[recurrent ? 3 : 1]->Data(),
       top[0]->Data(), top[0]->Diff(), top[1]->Diff(), diff(0), diff(1), diff(3)});
}

}  // namespace

void RegisterLSTMUnitLayer(LayerRegistry& registry) {
  LayerTraits traits = RecurrentUnit::Traits();
  traits.min_bottom = 3;
  traits.min_top = traits.max_top = 2;
  traits.backward_reads = Always({{BackwardReads::kAll}, {0}});
  traits.summary = "one step of LSTM";
  registry.Add<LSTMUnitLayer>("LSTMUnit", traits);
}

}  // namespace caffe

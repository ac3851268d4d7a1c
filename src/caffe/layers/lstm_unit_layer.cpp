#include <algorithm>

#include "caffe/layer/layer.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_registry.hpp"

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
class LSTMUnit : public LayerBase {
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
using LSTMUnitLayer = Layer<Dtype, MItype, MOtype, LSTMUnit>;

void LSTMUnit::LayerSetUp(const BlobVec& bottom, const BlobVec& top) {
  for (const BlobBase* blob : top) {
    CAFFE_CHECK(std::find(bottom.begin(), bottom.end(), blob) == bottom.end(), Where(),
                ": does not work in place");
  }
  forward_ = MakeKernel("neuron/lstm_unit", "lstm_unit_forward");
  backward_ = MakeKernel("neuron/lstm_unit", "lstm_unit_backward");
}

void LSTMUnit::Reshape(const BlobVec& bottom, const BlobVec& top) {
  const Shape& state = bottom[0]->shape();
  CAFFE_CHECK(state.size() == 3 && state[0] == 1, Where(), ": bottom 0 must have the shape 1 N H; ",
              "it has shape ", ShapeString(state));
  rows_ = state[1];
  columns_ = state[2];
  const Shape gates{1, rows_, 4 * columns_};
  for (const size_t b : {1, 3}) {
    CAFFE_CHECK(b >= bottom.size() || bottom[b]->shape() == gates, Where(), ": bottom ", b,
                " must have the shape ", ShapeString(gates), ", 4 gates of bottom 0; it has shape ",
                bottom[b]->shape_string());
  }
  CAFFE_CHECK(bottom[2]->shape() == Shape({1, rows_}), Where(), ": cont must have the shape 1 ",
              rows_, "; it has shape ", bottom[2]->shape_string());
  for (BlobBase* blob : top) blob->Reshape(state);
}

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

LayerFacts LSTMUnit::Facts() const {
  LayerFacts facts;
  facts.replayable = true;
  return facts;
}

}  // namespace

void RegisterLSTMUnitLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = 3;
  traits.max_bottom = 4;
  traits.min_top = traits.max_top = 2;
  traits.backward_reads = Always({{BackwardReads::kAll}, {0}});
  traits.float_bottoms = {2};
  traits.no_gradient_bottoms = {2};
  traits.summary = "one step of LSTM";
  registry.Add<LSTMUnitLayer>("LSTMUnit", traits);
}

}  // namespace caffe

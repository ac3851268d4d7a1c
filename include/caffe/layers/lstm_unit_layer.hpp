#pragma once

#include "caffe/layer/layer.hpp"

namespace caffe {

class LayerRegistry;

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

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class LSTMUnitLayer final : public Layer<Dtype, MItype, MOtype, LSTMUnit> {
  using Layer<Dtype, MItype, MOtype, LSTMUnit>::Layer;
};

}  // namespace caffe

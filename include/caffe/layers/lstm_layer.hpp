#pragma once

#include "caffe/layers/recurrent.hpp"

namespace caffe {

class LayerRegistry;

// LSTM (Hochreiter and Schmidhuber 1997; Donahue et al., arXiv 1411.4389), as in BVLC's Caffe. In
// each step t
//   a = W_xc x_t + b_c + W_xc_static x_static + cont_t W_hc h_(t-1)
// has the parts a_i, a_f, a_o, a_g, and c_t and h_t are those of LSTMUnit.
// Bottoms, tops and recurrent_param: see Recurrent. States: h, c.
// blobs: W_xc [4H, D], b_c [4H], with static input W_xc_static [4H, S], W_hc [4H, H].
// Types: float kinds; cont is float.
class LSTM : public Recurrent {
 public:
  using Recurrent::Recurrent;

 protected:
  std::vector<std::string> StateNames() const override;
  InputProduct InputOfGates() const override;
  void AddStep(Builder* net, int64_t t) const override;
  void AppendParameters(std::vector<SubNet::Parameter>* parameters) const override;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class LSTMLayer final : public Layer<Dtype, MItype, MOtype, LSTM> {
  using Layer<Dtype, MItype, MOtype, LSTM>::Layer;
};

}  // namespace caffe

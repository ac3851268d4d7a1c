#pragma once

#include "caffe/layers/recurrent.hpp"

namespace caffe {

class LayerRegistry;

// A simple recurrent layer, as in BVLC's Caffe. In each step t
//   h_t = tanh(W_hh (cont_t h_(t-1)) + W_xh x_t + b_h + W_xh_static x_static)
//   o_t = tanh(W_ho h_t + b_o)
// The first top is o. Bottoms, tops and recurrent_param: see Recurrent. State: h.
// blobs: W_xh [H, D], b_h [H], with static input W_xh_static [H, S], W_hh [H, H], W_ho [H, H],
//   b_o [H].
// Types: float kinds; cont is float.
class RNN : public Recurrent {
 public:
  using Recurrent::Recurrent;

 protected:
  std::vector<std::string> StateNames() const override;
  InputProduct InputOfGates() const override;
  void AddStep(Builder* net, int64_t t) const override;
  std::string AddOutput(Builder* net) const override;
  bool ConvertsCont() const override { return true; }
  void AppendParameters(std::vector<SubNet::Parameter>* parameters) const override;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class RNNLayer final : public Layer<Dtype, MItype, MOtype, RNN> {
  using Layer<Dtype, MItype, MOtype, RNN>::Layer;
};

}  // namespace caffe

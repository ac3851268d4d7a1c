#pragma once

#include "caffe/layers/recurrent.hpp"

namespace caffe {

class LayerRegistry;

// GRU (Cho et al., arXiv 1406.1078). In each step t
//   a = W_xh x_t + b_h + W_xh_static x_static,  b = cont_t W_hh h_(t-1)
// have the parts r, z, n, and h_t is that of GRUUnit.
// Bottoms, tops and recurrent_param: see Recurrent. State: h.
// blobs: W_xh [3H, D], b_h [3H], with static input W_xh_static [3H, S], W_hh [3H, H].
// Types: float kinds; cont is float.
class GRU : public Recurrent {
 public:
  using Recurrent::Recurrent;

 protected:
  std::vector<std::string> StateNames() const override;
  InputProduct InputOfGates() const override;
  void AddStep(Builder* net, int64_t t) const override;
  void AppendParameters(std::vector<SubNet::Parameter>* parameters) const override;
};

template <class Dtype, class MItype = Dtype, class MOtype = Dtype>
class GRULayer final : public Layer<Dtype, MItype, MOtype, GRU> {
  using Layer<Dtype, MItype, MOtype, GRU>::Layer;
};

}  // namespace caffe

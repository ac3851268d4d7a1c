#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "recurrent.hpp"

namespace caffe {
namespace {

// GRU (Cho et al., arXiv 1406.1078). In each step t
//   a = W_xh x_t + b_h + W_xh_static x_static,  b = cont_t W_hh h_(t-1)
// have the parts r, z, n, and h_t is that of GRUUnit.
// Bottoms, tops and recurrent_param: see Recurrent. State: h.
// blobs: W_xh [3H, D], b_h [3H], with static input W_xh_static [3H, S], W_hh [3H, H].
// Types: float kinds, quant8 (see Recurrent); cont is float.
class GRU : public Recurrent {
 public:
  using Recurrent::Recurrent;

 protected:
  std::vector<std::string> StateNames() const override;
  InputProduct InputOfGates() const override;
  void AddStep(Builder* net, int64_t t) const override;
};

template <class Dtype, class MItype, class MOtype>
using GRULayer = Layer<Dtype, MItype, MOtype, GRU>;

std::vector<std::string> GRU::StateNames() const { return {"h"}; }

Recurrent::InputProduct GRU::InputOfGates() const {
  return {3 * hidden(), "W_xh", "b_h", "W_xh_static"};
}

void GRU::AddStep(Builder* net, int64_t t) const {
  const std::string before = Concat("_", t - 1), now = Concat("_", t);
  net->Product("transform" + now, "h" + before, "h_gates" + now, 2, 3 * hidden(), "W_hh");
  net->Add("GRUUnit", "unit" + now, {"h" + before, "x_gates" + now, "cont" + now, "h_gates" + now},
           {"h" + now});
}

}  // namespace

void RegisterGRULayer(LayerRegistry& registry) {
  LayerTraits traits = Recurrent::Traits(1);
  traits.summary = "GRU over the steps of axis 0";
  registry.Add<GRULayer>("GRU", traits);
}

}  // namespace caffe

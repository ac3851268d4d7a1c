#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "caffe/library/multiplexer.hpp"
#include "recurrent.hpp"

namespace caffe {
namespace {

// LSTM (Hochreiter and Schmidhuber 1997; Donahue et al., arXiv 1411.4389), as in BVLC's Caffe. In
// each step t
//   a = W_xc x_t + b_c + W_xc_static x_static + cont_t W_hc h_(t-1)
// has the parts a_i, a_f, a_o, a_g, and c_t and h_t are those of LSTMUnit. Where a library computes
// all steps at once, LSTMSteps does so, otherwise a product and LSTMUnit in each step.
// Bottoms, tops and recurrent_param: see Recurrent. States: h, c.
// blobs: W_xc [4H, D], b_c [4H], with static input W_xc_static [4H, S], W_hc [4H, H].
// Types: float kinds, quant8 (see Recurrent); cont is float.
class LSTM : public Recurrent {
 public:
  using Recurrent::Recurrent;

 protected:
  std::vector<std::string> StateNames() const override;
  InputProduct InputOfGates() const override;
  bool JoinsSteps(const BlobVec& bottom) const override;
  void AddAllSteps(Builder* net) const override;
  void AddStep(Builder* net, int64_t t) const override;
};

template <class Dtype, class MItype, class MOtype>
using LSTMLayer = Layer<Dtype, MItype, MOtype, LSTM>;

std::vector<std::string> LSTM::StateNames() const { return {"h", "c"}; }

Recurrent::InputProduct LSTM::InputOfGates() const {
  return {4 * hidden(), "W_xc", "b_c", "W_xc_static"};
}

// With recompute or debug_info, the user wants the single steps.
bool LSTM::JoinsSteps(const BlobVec& bottom) const {
  const DataType type = types().compute;
  if (type.is_custom() || type.is_quantized() || layer_param().recompute() || debug_info())
    return false;
  LstmDescriptor d;
  d.steps = bottom[0]->shape(0);
  d.items = bottom[0]->shape(1);
  d.hidden = hidden();
  d.type = type;
  return Multiplexer::LstmLibraries(device(), d)[0] != "products";
}

void LSTM::AddAllSteps(Builder* net) const {
  LayerParameter* steps =
      net->Add("LSTMSteps", "steps", {"x_gates", "cont", "h_0", "c_0"}, {"h", "h_last", "c_last"});
  steps->add_param()->set_name("W_hc");
  RecurrentParameter* parameter = steps->mutable_recurrent_param();
  parameter->set_num_output(static_cast<uint32_t>(hidden()));
  *parameter->mutable_weight_filler() = layer_param().recurrent_param().weight_filler();
}

void LSTM::AddStep(Builder* net, int64_t t) const {
  const std::string before = Concat("_", t - 1), now = Concat("_", t);
  net->Product("transform" + now, "h" + before, "h_gates" + now, 2, 4 * hidden(), "W_hc");
  net->Add("LSTMUnit", "unit" + now, {"c" + before, "x_gates" + now, "cont" + now, "h_gates" + now},
           {"c" + now, "h" + now});
}

}  // namespace

void RegisterLSTMLayer(LayerRegistry& registry) {
  LayerTraits traits = Recurrent::Traits(2);
  traits.summary = "LSTM over the steps of axis 0";
  registry.Add<LSTMLayer>("LSTM", traits);
}

}  // namespace caffe

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "recurrent.hpp"

namespace caffe {
namespace {

// A simple recurrent layer, as in BVLC's Caffe. In each step t
//   h_t = tanh(cont_t W_hh h_(t-1) + W_xh x_t + b_h + W_xh_static x_static)
//   o_t = tanh(W_ho h_t + b_o)
// The first top is o. Bottoms, tops and recurrent_param: see Recurrent. State: h.
// blobs: W_xh [H, D], b_h [H], with static input W_xh_static [H, S], W_hh [H, H], W_ho [H, H],
//   b_o [H].
// Types: float kinds, quant8 (see Recurrent); cont is float.
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

template <class Dtype, class MItype, class MOtype>
using RNNLayer = Layer<Dtype, MItype, MOtype, RNN>;

std::vector<std::string> RNN::StateNames() const { return {"h"}; }

Recurrent::InputProduct RNN::InputOfGates() const {
  return {hidden(), "W_xh", "b_h", "W_xh_static"};
}

void RNN::AddStep(Builder* net, int64_t t) const {
  const std::string before = Concat("_", t - 1), now = Concat("_", t);
  // The product comes first, as in LSTM and GRU, so that it reads h, whose range is known.
  net->Product("transform" + now, "h" + before, "W_hh_h" + before, 2, hidden(), "W_hh");
  net->Add("Scale", "W_hh_conted" + before, {"W_hh_h" + before, "cont" + now},
           {"W_hh_conted" + before})
      ->mutable_scale_param()
      ->set_axis(0);
  net->Add("Eltwise", "h_input" + now, {"W_hh_conted" + before, "x_gates" + now},
           {"h_neuron_input" + now});
  net->Add("TanH", "h_neuron" + now, {"h_neuron_input" + now}, {"h" + now});
}

// All time steps in one product.
std::string RNN::AddOutput(Builder* net) const {
  net->Product("output_transform", "h", "W_ho_h", 2, hidden(), "W_ho", "b_o");
  net->Add("TanH", "o_neuron", {"W_ho_h"}, {"o"});
  return "o";
}

void RNN::AppendParameters(std::vector<SubNet::Parameter>* parameters) const {
  Recurrent::AppendParameters(parameters);
  parameters->push_back({"output_transform", 0});
  parameters->push_back({"output_transform", 1});
}

}  // namespace

void RegisterRNNLayer(LayerRegistry& registry) {
  LayerTraits traits = Recurrent::Traits(1);
  traits.backward_reads = Always({{BackwardReads::kAll}, {0}});
  traits.summary = "a simple recurrent layer over the steps of axis 0";
  registry.Add<RNNLayer>("RNN", traits);
}

}  // namespace caffe

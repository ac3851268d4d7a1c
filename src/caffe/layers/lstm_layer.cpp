#include "caffe/layers/lstm_layer.hpp"

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

std::vector<std::string> LSTM::StateNames() const { return {"h", "c"}; }

Recurrent::InputProduct LSTM::InputOfGates() const {
  return {4 * hidden(), "W_xc", "b_c", "W_xc_static"};
}

void LSTM::AddStep(Builder* net, int64_t t) const {
  const std::string before = Concat("_", t - 1), now = Concat("_", t);
  net->Product("transform" + now, "h" + before, "h_gates" + now, 2, 4 * hidden(), "W_hc");
  net->Add("LSTMUnit", "unit" + now, {"c" + before, "x_gates" + now, "cont" + now, "h_gates" + now},
           {"c" + now, "h" + now});
}

void LSTM::AppendParameters(std::vector<SubNet::Parameter>* parameters) const {
  parameters->push_back({"transform_1", 0});
}

void RegisterLSTMLayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = 2;
  traits.max_bottom = 5;
  traits.max_top = 3;
  traits.float_bottoms = {1};
  traits.no_gradient_bottoms = {1};
  traits.backward_reads = Always({{BackwardReads::kAll}, {}});
  traits.summary = "LSTM over the steps of axis 0";
  registry.Add<LSTMLayer>("LSTM", traits);
}

}  // namespace caffe

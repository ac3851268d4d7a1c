#include "caffe/layers/gru_layer.hpp"

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {

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

void GRU::AppendParameters(std::vector<SubNet::Parameter>* parameters) const {
  parameters->push_back({"transform_1", 0});
}

void RegisterGRULayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.min_bottom = 2;
  traits.max_bottom = 4;
  traits.max_top = 2;
  traits.float_bottoms = {1};
  traits.no_gradient_bottoms = {1};
  traits.backward_reads = Always({{BackwardReads::kAll}, {}});
  traits.summary = "GRU over the steps of axis 0";
  registry.Add<GRULayer>("GRU", traits);
}

}  // namespace caffe

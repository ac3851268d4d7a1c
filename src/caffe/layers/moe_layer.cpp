#include "caffe/layers/moe_layer.hpp"

#include "caffe.pb.h"
#include "caffe/layer/layer_registry.hpp"
#include "moe_net.hpp"

namespace caffe {

SubNet MOELayer::Expand(const BlobVec& bottom, int tops) {
  const DataType real = types().in == kDouble || types().out == kDouble ? kDouble : kFloat;
  return MOENet(layer_param(), real, types().out).Build(static_cast<int>(bottom.size()), tops);
}

void RegisterMOELayer(LayerRegistry& registry) {
  LayerTraits traits;
  traits.max_bottom = traits.max_top = -1;
  traits.types = BuiltInTypes();
  traits.converts = true;
  traits.backward_reads = Always({});
  traits.summary = "a mixture of experts: a gating net selects expert nets for each item";
  registry.AddUntyped("MOE", traits,
                      [](const LayerParameter& parameter, const LayerContext& context) {
                        return std::make_shared<MOELayer>(parameter, context);
                      });
}

}  // namespace caffe

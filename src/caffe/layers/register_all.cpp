#include "caffe/layer/layer_registry.hpp"

namespace caffe {

#define CAFFE_LAYER(name) void Register##name##Layer(LayerRegistry& registry);
#include "all_layers.inc"
#undef CAFFE_LAYER

void RegisterAllLayers(LayerRegistry* registry) {
#define CAFFE_LAYER(name) Register##name##Layer(*registry);
#include "all_layers.inc"
#undef CAFFE_LAYER
  registry->AddElsewhere(
      "Python",
      "layers of type Python run inside Python only: use the net or the solver from there "
      "(import caffe)");
}

}  // namespace caffe

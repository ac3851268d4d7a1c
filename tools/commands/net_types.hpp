#pragma once

#include <string>

#include "caffe.pb.h"
#include "caffe/core/data_type.hpp"

namespace caffe {

// The type of a name on the command line: int8 and int16 are those of codes. Throws for an unknown
// one.
DataType CommandType(const std::string& name);
// The name that CommandType reads.
std::string CommandTypeName(DataType type);

// Calls a function for a net and for the nets within its layers.
template <class Function> void ForEachNet(NetParameter* net, const Function& function) {
  function(net);
  for (LayerParameter& layer : *net->mutable_layer()) {
    if (!layer.has_moe_param()) continue;
    MOEParameter* moe = layer.mutable_moe_param();
    if (moe->has_gating_net()) ForEachNet(moe->mutable_gating_net(), function);
    for (NetParameter& expert : *moe->mutable_expert_net()) ForEachNet(&expert, function);
  }
}

// Sets the type of a net and of the nets within it. Layers with types of their own keep them.
void SetNetType(DataType type, NetParameter* net);

}  // namespace caffe

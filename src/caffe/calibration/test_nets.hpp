#pragma once

#include <memory>
#include <string>

#include "caffe.pb.h"
#include "caffe/net/net.hpp"

namespace caffe {

// A net in phase TEST with a fixed seed.
std::unique_ptr<Net> TestNet(const NetParameter& model, Device* device);
void RemoveTypes(LayerParameter* layer);
void SetTypes(DataType type, LayerParameter* layer);
bool HasTypes(const LayerParameter& layer);
void CopyTypes(LayerParameter from, LayerParameter* layer);
// The net, its layers and the nets within them in float, without ranges.
NetParameter InFloat(NetParameter net);
// The type of the expert nets that have none of their own. A layer without expert nets stays as it
// is.
void SetExpertTypes(DataType type, LayerParameter* layer);
bool Contains(const google::protobuf::RepeatedPtrField<std::string>& list, const std::string& name);
bool IsInPlace(const LayerParameter& layer);
// Whether no later layer changes a bottom of this layer in place: then the net's blobs hold, after
// a forward, what the layer has read.
bool HoldsBottoms(const Net& net, int layer);
// The layers of phase TEST, without weights and ranges.
NetParameter Layers(const Net& net);
// The same with Input layers instead of data layers.
NetParameter WithInputs(const Net& net);

}  // namespace caffe

// The quantized net: types of layers, ranges and weights.
#include <algorithm>

#include "caffe/calibration/pack_parameters.hpp"
#include "caffe/calibration/steps.hpp"
#include "caffe/graph/passes.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_traits.hpp"
#include "caffe/layer/sub_net.hpp"
#include "test_nets.hpp"

namespace caffe {
namespace {

// The layer of the given model, whose explicit types are the user's choice for the quantized net.
const LayerParameter& Given(const FloatNet& net, int layer) {
  return net.given->layer(net.given_layers[layer]);
}

// The type of a layer without explicit types.
DataType TypeOf(const LayerTypes& types, int layer) {
  if (types.float_layers.count(layer)) return kFloat;
  const auto wider = types.wider.find(layer);
  return wider != types.wider.end() ? wider->second : types.type;
}

void SetLayerTypes(const FloatNet& net, const LayerTypes& types, int index, LayerParameter* layer) {
  const LayerTraits& traits = TraitsOf(layer->type());
  if (traits.input) RemoveTypes(layer);
  if (IsDataLayer(*layer)) return;
  const LayerParameter& given = Given(net, index);
  const DataType type = TypeOf(types, index);
  if (given.has_moe_param()) {
    *layer->mutable_moe_param() = given.moe_param();
    // Experts compute in float in mode dynamic.
    if (type != kFloat && !types.dynamic) SetExpertTypes(type, layer);
  }
  if (HasTypes(given)) return CopyTypes(given, layer);
  const auto& known = traits.types;
  if (type != types.type && std::find(known.begin(), known.end(), type) != known.end()) {
    SetTypes(type, layer);
  }
}

// `layers`: those of net.model in `model`.
NetParameter Typed(const FloatNet& net, const LayerTypes& types, NetParameter model,
                   const std::vector<int>& layers) {
  model.set_data_type(static_cast<DataTypeProto>(types.type.info().proto));
  model.clear_data_type_name();
  if (types.dynamic) model.mutable_state()->set_quantizer_mode(CAFFE_QUANT_DYNAMIC);
  for (int i = 0; i < net.model->layer_size(); ++i) {
    SetLayerTypes(net, types, i, model.mutable_layer(layers.empty() ? i : layers[i]));
  }
  return model;
}

// Whether a layer computes in the wanted type, for which its weights were changed.
bool InWantedType(const FloatNet& net, const LayerTypes& types, int layer) {
  const auto wide = types.wider.find(layer);
  if (wide != types.wider.end()) return wide->second == types.type;
  const LayerParameter& own = Given(net, layer);
  if (!HasTypes(own)) return true;
  const int wanted = types.type.info().proto;
  if (own.has_compute_data_type()) return own.compute_data_type() == wanted;
  if (own.has_bottom_data_type()) return own.bottom_data_type() == wanted;
  return own.has_top_data_type() && own.top_data_type() == wanted;
}

}  // namespace

std::vector<std::vector<int>> GroupsOf(const FloatNet& net, std::set<int>* read_by_others) {
  std::vector<std::vector<int>> groups;
  std::map<std::string, int> group_of_blob;
  for (int l = 0; l < net.model->layer_size(); ++l) {
    const LayerParameter& layer = net.model->layer(l);
    const LayerBase& made = *net.net->layers()[l];
    const bool weighted =
        made.Facts().weighted.has_value() || dynamic_cast<const CompositeLayer*>(&made) != nullptr;
    int group = -1;
    for (const std::string& bottom : layer.bottom()) {
      const int source = group_of_blob.count(bottom) ? group_of_blob.at(bottom) : -1;
      if (group < 0) group = source;
      if (weighted || (group >= 0 && source != group)) read_by_others->insert(source);
    }
    if (weighted) {
      group = static_cast<int>(groups.size());
      groups.push_back({l});
    } else if (group >= 0) {
      groups[group].push_back(l);
    }
    for (const std::string& top : layer.top()) group_of_blob[top] = group;
  }
  return groups;
}

LayerTypes TypesOf(const FloatNet& net, const QuantizeOptions& options) {
  LayerTypes types{options.type, {}, {}};
  types.dynamic = options.dynamic();
  types.power_of_two = options.calibration.power_of_two && options.type.is_quantized();
  // Layers without weights compute in float then.
  if (types.dynamic) return types;
  if (!options.type.is_quantized() || !options.float_scores) return types;
  std::set<int> inner;
  const std::vector<std::vector<int>> groups = GroupsOf(net, &inner);
  for (size_t g = 0; g < groups.size(); ++g) {
    if (inner.count(static_cast<int>(g))) continue;
    for (size_t i = 1; i < groups[g].size(); ++i) {
      const int layer = groups[g][i];
      if (!IsInPlace(net.model->layer(layer)) && !HasTypes(Given(net, layer))) {
        types.float_layers.insert(layer);
      }
    }
  }
  return types;
}

NetParameter TypedModel(const FloatNet& net, const LayerTypes& types) {
  return Typed(net, types, *net.model, {});
}

ChangedWeights FittingWeights(const FloatNet& net, const LayerTypes& types,
                              ChangedWeights weights) {
  weights.file = std::make_shared<NetParameter>(*weights.file);
  NetParameter exact;
  for (int i = 0; i < weights.file->layer_size(); ++i) {
    LayerParameter* layer = weights.file->mutable_layer(i);
    if (!types.type.is_quantized() || layer->blobs_size() == 0) continue;
    if (InWantedType(net, types, i)) continue;
    if (exact.layer_size() == 0) net.net->ToProto(&exact);
    const LayerParameter& now = exact.layer(i);
    const bool corrected = now.blobs_size() > 1 &&
                           now.blobs(1).SerializeAsString() != layer->blobs(1).SerializeAsString();
    if (corrected) --weights.corrected_biases;
    weights.gains.erase(i);
    *layer = now;
  }
  return weights;
}

TypedNet MakeTypedNet(const Prepared& prepared) {
  const FloatNet& float_net = prepared.net;
  const LayerTypes& types = prepared.types;
  TypedNet typed;
  typed.net = TestNet(TypedModel(float_net, types), float_net.device);
  typed.model = std::make_shared<NetParameter>(
      Typed(float_net, types, *float_net.given, float_net.given_layers));
  typed.model->clear_quantizer();
  for (LayerParameter& layer : *typed.model->mutable_layer()) layer.clear_blobs();
  const auto weights = FittingWeights(float_net, types, prepared.weights).file;
  typed.file = std::make_shared<NetParameter>();
  typed.file->set_name(weights->name());
  // Layers are found by name, several of one name in their order, so that none of them is left out.
  std::map<std::string, int> namesakes;
  for (const LayerParameter& layer : weights->layer()) ++namesakes[layer.name()];
  for (LayerParameter& layer : *weights->mutable_layer()) {
    if (layer.blobs_size() == 0 && namesakes.at(layer.name()) == 1) continue;
    LayerParameter* copy = typed.file->add_layer();
    copy->set_name(layer.name());
    copy->set_type(layer.type());
    copy->mutable_blobs()->Swap(layer.mutable_blobs());
  }
  typed.float_bytes = static_cast<int64_t>(typed.file->ByteSizeLong());
  for (const auto& [blob, range] : prepared.ranges) {
    QuantizerParameter* quantizer = typed.file->add_quantizer();
    quantizer->set_name(blob);
    WriteRange(types.power_of_two ? PowerOfTwoRange(range, types.type) : range, quantizer);
  }
  std::map<int, DataType> stored;
  for (int i = 0; i < float_net.model->layer_size(); ++i) {
    if (!HasTypes(Given(float_net, i))) stored[i] = TypeOf(types, i);
  }
  PackParameters(*typed.net, typed.file.get(), stored, types.power_of_two);
  typed.net->CopyTrainedLayersFrom(*typed.file);
  return typed;
}

}  // namespace caffe

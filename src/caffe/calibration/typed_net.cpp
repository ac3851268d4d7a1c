// The quantized net: types of layers, ranges and weights.
#include <algorithm>
#include <set>

#include "caffe/calibration/pack_parameters.hpp"
#include "caffe/graph/passes.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/layer_traits.hpp"
#include "caffe/layer/sub_net.hpp"
#include "quantization.hpp"

namespace caffe {

void Quantization::FindGroups() {
  std::map<std::string, int> group_of_blob;
  std::set<int> inner;  // groups that another group reads
  for (int l = 0; l < model_.layer_size(); ++l) {
    const LayerParameter& layer = model_.layer(l);
    const LayerBase& made = *float_net_->layers()[l];
    const bool weighted =
        made.Facts().weighted.has_value() || dynamic_cast<const CompositeLayer*>(&made) != nullptr;
    int group = -1;
    for (const std::string& bottom : layer.bottom()) {
      const int source = group_of_blob.count(bottom) ? group_of_blob.at(bottom) : -1;
      if (group < 0) group = source;
      if (weighted || (group >= 0 && source != group)) inner.insert(source);
    }
    if (weighted) {
      group = static_cast<int>(groups_.size());
      groups_.push_back({l});
    } else if (group >= 0) {
      groups_[group].push_back(l);
    }
    for (const std::string& top : layer.top()) group_of_blob[top] = group;
  }
  if (!quantized() || !options_.float_scores) return;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (inner.count(static_cast<int>(g))) continue;
    for (size_t i = 1; i < groups_[g].size(); ++i) {
      const int layer = groups_[g][i];
      if (!IsInPlace(model_.layer(layer)) && !own_types_.count(layer)) fixed_[layer] = kFloat;
    }
  }
}

void Quantization::SetNetType(NetParameter* net) const {
  net->set_data_type(static_cast<DataTypeProto>(options_.type.info().proto));
  net->clear_data_type_name();
}

void Quantization::SetLayerTypes(int index, LayerParameter* layer) const {
  const LayerTraits& traits = TraitsOf(layer->type());
  if (traits.input) RemoveTypes(layer);
  if (IsDataLayer(*layer)) return;
  DataType type = options_.type;
  if (fixed_.count(index)) type = fixed_.at(index);
  const auto wide = wider_.find(index);
  if (wide != wider_.end() && type != kFloat) type = wide->second;
  const auto mixture = mixtures_.find(index);
  if (mixture != mixtures_.end()) {
    *layer->mutable_moe_param() = mixture->second;
    if (type != kFloat) SetExpertTypes(type, layer);
  }
  const auto own = own_types_.find(index);
  if (own != own_types_.end()) {
    RemoveTypes(layer);
    if (own->second.has_bottom_data_type())
      layer->set_bottom_data_type(own->second.bottom_data_type());
    if (own->second.has_compute_data_type())
      layer->set_compute_data_type(own->second.compute_data_type());
    if (own->second.has_top_data_type()) layer->set_top_data_type(own->second.top_data_type());
    if (own->second.has_bottom_data_type_name())
      layer->set_bottom_data_type_name(own->second.bottom_data_type_name());
    if (own->second.has_compute_data_type_name())
      layer->set_compute_data_type_name(own->second.compute_data_type_name());
    if (own->second.has_top_data_type_name())
      layer->set_top_data_type_name(own->second.top_data_type_name());
    return;
  }
  const auto& known = traits.types;
  if (type != options_.type && std::find(known.begin(), known.end(), type) != known.end()) {
    SetTypes(type, layer);
  }
}

NetParameter Quantization::TypedModel() const {
  NetParameter typed = model_;
  SetNetType(&typed);
  for (int i = 0; i < typed.layer_size(); ++i) SetLayerTypes(i, typed.mutable_layer(i));
  return typed;
}

NetParameter Quantization::TypedGiven() const {
  NetParameter typed = given_;
  SetNetType(&typed);
  for (int i = 0; i < model_.layer_size(); ++i) {
    SetLayerTypes(i, typed.mutable_layer(given_layers_[i]));
  }
  return typed;
}

bool Quantization::InWantedType(int layer) const {
  const auto wide = wider_.find(layer);
  if (wide != wider_.end()) return wide->second == options_.type;
  const auto own = own_types_.find(layer);
  if (own == own_types_.end()) return true;
  const LayerParameter& types = own->second;
  const int wanted = options_.type.info().proto;
  if (types.has_compute_data_type()) return types.compute_data_type() == wanted;
  if (types.has_bottom_data_type()) return types.bottom_data_type() == wanted;
  return types.has_top_data_type() && types.top_data_type() == wanted;
}

NetParameter Quantization::FittingWeights() const {
  NetParameter file = changed_;
  NetParameter exact;
  for (int i = 0; i < file.layer_size(); ++i) {
    const LayerParameter& layer = file.layer(i);
    if (!quantized() || layer.blobs_size() == 0 || InWantedType(i)) continue;
    if (exact.layer_size() == 0) float_net_->ToProto(&exact);
    *file.mutable_layer(i) = exact.layer(i);
  }
  return file;
}

void Quantization::KeepFittingWeights() {
  NetParameter fitting = FittingWeights();
  for (int i = 0; i < fitting.layer_size(); ++i) {
    const LayerParameter &now = fitting.layer(i), &before = changed_.layer(i);
    if (now.blobs_size() == 0 || InWantedType(i)) continue;
    rounding_gains_.erase(i);
    const bool corrected = options_.bias_correction && now.blobs_size() > 1 &&
                           now.blobs(1).SerializeAsString() != before.blobs(1).SerializeAsString();
    if (corrected) --report_.corrected_biases;
  }
  changed_ = std::move(fitting);
}

NetParameter Quantization::WithRanges() const {
  NetParameter file = FittingWeights();
  for (const auto& [blob, range] : ranges_) {
    QuantizerParameter* quantizer = file.add_quantizer();
    quantizer->set_name(blob);
    WriteRange(range, quantizer);
  }
  return file;
}

void Quantization::Pack(const Net& net, NetParameter* file) const {
  std::map<int, DataType> stored;
  for (int i = 0; i < model_.layer_size(); ++i) {
    if (own_types_.count(i)) continue;
    const auto fixed = fixed_.find(i), wide = wider_.find(i);
    stored[i] = fixed != fixed_.end()  ? fixed->second
                : wide != wider_.end() ? wide->second
                                       : options_.type;
  }
  PackParameters(net, file, stored);
}

std::unique_ptr<Net> Quantization::QuantizedTestNet() const {
  auto net = TestNet(TypedModel(), device_);
  NetParameter file = WithRanges();
  Pack(*net, &file);
  net->CopyTrainedLayersFrom(file);
  return net;
}

}  // namespace caffe

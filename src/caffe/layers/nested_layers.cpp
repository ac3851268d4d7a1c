#include "nested_layers.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/core/repeated_names.hpp"
#include "caffe/layer/layer_registry.hpp"

namespace caffe {
namespace {

// By the phase alone; the builder of the net applies the rules about levels and stages.
bool RunsIn(Phase phase, const LayerParameter& layer) {
  const auto only_phase = [](const NetStateRule& rule) {
    return rule.has_phase() && !rule.has_min_level() && !rule.has_max_level() &&
           rule.stage_size() == 0 && rule.not_stage_size() == 0;
  };
  const auto other_phase = [&](const NetStateRule& rule) {
    return rule.has_phase() && rule.phase() != phase;
  };
  const auto& include = layer.include();
  if (!include.empty() && std::all_of(include.begin(), include.end(), other_phase)) return false;
  return std::none_of(
      layer.exclude().begin(), layer.exclude().end(),
      [&](const NetStateRule& rule) { return only_phase(rule) && rule.phase() == phase; });
}

bool HasTypes(const LayerParameter& layer) {
  return layer.has_bottom_data_type() || layer.has_bottom_data_type_name() ||
         layer.has_compute_data_type() || layer.has_compute_data_type_name() ||
         layer.has_top_data_type() || layer.has_top_data_type_name();
}

bool InPlace(const LayerParameter& layer) {
  return layer.bottom_size() > 0 && layer.top_size() > 0 && layer.bottom(0) == layer.top(0);
}

}  // namespace

NestedLayers::NestedLayers(const NetParameter& net, const LayerParameter& outer, DataType real,
                           const std::string& what, std::vector<std::string> inputs)
    : what_(Concat(outer.name(), " (", outer.type(), "): ", what)), inputs_(std::move(inputs)) {
  std::set<std::string> read;
  std::vector<std::string> names;
  for (const LayerParameter& layer : net.layer()) {
    if (!RunsIn(outer.phase(), layer)) continue;
    if (TraitsOf(layer.type()).input) {
      own_inputs_.insert(own_inputs_.end(), layer.top().begin(), layer.top().end());
      continue;
    }
    layers_.push_back(layer);
    names.push_back(layer.name());
    read.insert(layer.bottom().begin(), layer.bottom().end());
  }
  // The nested nets name parameters by their layers.
  names = UniqueNames(names);
  for (size_t i = 0; i < names.size(); ++i) layers_[i].set_name(names[i]);
  CAFFE_CHECK(own_inputs_.size() == inputs_.size(), what_, " has ", own_inputs_.size(),
              " inputs (the tops of its Input layers), but ", inputs_.size(),
              " bottoms are mapped to it");
  std::set<std::string> outputs;
  for (const LayerParameter& layer : layers_) {
    for (const std::string& top : layer.top()) {
      // A blob that is changed in place is read, too, by the layer that changes it.
      const bool only_in_place =
          std::none_of(layers_.begin(), layers_.end(), [&](const LayerParameter& other) {
            const auto reads = [&](const std::string& name) { return name == top; };
            return std::any_of(other.bottom().begin(), other.bottom().end(), reads) &&
                   std::none_of(other.top().begin(), other.top().end(), reads);
          });
      if (only_in_place) outputs.insert(top);
    }
  }
  outputs_.assign(outputs.begin(), outputs.end());
  SetTypes(net, real);
}

void NestedLayers::SetTypes(const NetParameter& net, DataType real) {
  if (!net.has_data_type() && !net.has_data_type_name()) return;
  const DataType type = net.has_data_type_name() ? DataTypeByName(net.data_type_name())
                                                 : DataTypeByProto(net.data_type());
  if (type == real) return;
  for (LayerParameter& layer : layers_) {
    const LayerTraits& traits = TraitsOf(layer.type());
    if (HasTypes(layer) || InPlace(layer) || traits.moves_elements || traits.data) continue;
    const DataType known = type.is_custom() ? kFloat : type;
    const bool supported =
        std::find(traits.types.begin(), traits.types.end(), known) != traits.types.end();
    if (!supported || (type.is_quantized() && traits.quantizes && !traits.quantizes(layer))) {
      CAFFE_CHECK(supported || type.is_quantized(), what_, ": layer ", layer.name(), " (",
                  layer.type(), ") does not compute in ", type.name());
      continue;
    }
    if (traits.converts) {
      layer.set_top_data_type(static_cast<DataTypeProto>(type.info().proto));
      if (type.is_custom()) layer.set_top_data_type_name(type.name());
    } else {
      layer.set_compute_data_type(static_cast<DataTypeProto>(type.info().proto));
      if (type.is_custom()) layer.set_compute_data_type_name(type.name());
    }
  }
}

std::vector<LayerParameter> NestedLayers::WithPrefix(const std::string& prefix) const {
  std::map<std::string, std::string> names;  // of the blobs so far
  for (size_t i = 0; i < own_inputs_.size(); ++i) names[own_inputs_[i]] = inputs_[i];
  std::vector<LayerParameter> out = layers_;
  for (LayerParameter& layer : out) {
    layer.set_name(prefix + "/" + layer.name());
    for (std::string& bottom : *layer.mutable_bottom()) {
      const auto found = names.find(bottom);
      CAFFE_CHECK(found != names.end(), what_, ": no layer before ", layer.name(), " (",
                  layer.type(), ") has the top '", bottom, "'");
      bottom = found->second;
    }
    // An input that is changed in place has another reader; its new content gets a name of its own.
    for (std::string& top : *layer.mutable_top()) {
      names[top] = prefix + "/" + top;
      top = names[top];
    }
    for (ParamSpec& spec : *layer.mutable_param()) {
      if (!spec.name().empty()) spec.set_name(prefix + "/" + spec.name());
    }
  }
  return out;
}

std::string NestedLayers::Blob(const std::string& blob, const std::string& prefix) const {
  if (Producer(blob)) return prefix + "/" + blob;
  for (size_t i = 0; i < own_inputs_.size(); ++i) {
    if (own_inputs_[i] == blob) return inputs_[i];
  }
  CAFFE_THROW(what_, " has no blob '", blob, "'");
}

const LayerParameter* NestedLayers::Producer(const std::string& blob) const {
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    if (std::find(layer->top().begin(), layer->top().end(), blob) != layer->top().end()) {
      return &*layer;
    }
  }
  return nullptr;
}

bool NestedLayers::EqualTo(const NestedLayers& other) const {
  const auto normal = [](const NestedLayers& nested) {
    std::map<std::string, std::string> names;
    const auto name = [&](std::string* blob) {
      *blob = names.emplace(*blob, std::to_string(names.size())).first->second;
    };
    for (std::string input : nested.own_inputs_) name(&input);
    std::vector<std::string> texts;
    for (LayerParameter layer : nested.layers_) {
      layer.clear_name();
      layer.clear_blobs();
      layer.clear_param();
      layer.clear_include();
      layer.clear_exclude();
      for (std::string& bottom : *layer.mutable_bottom()) name(&bottom);
      for (std::string& top : *layer.mutable_top()) name(&top);
      texts.push_back(layer.SerializeAsString());
    }
    for (std::string output : nested.outputs_) {
      name(&output);
      texts.push_back(output);
    }
    return texts;
  };
  return inputs_ == other.inputs_ && normal(*this) == normal(other);
}

bool NestedLayers::SharesParameters() const {
  return std::any_of(layers_.begin(), layers_.end(), [](const LayerParameter& layer) {
    return std::any_of(layer.param().begin(), layer.param().end(),
                       [](const ParamSpec& spec) { return !spec.name().empty(); });
  });
}

}  // namespace caffe

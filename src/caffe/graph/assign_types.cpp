#include <algorithm>
#include <map>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/graph/passes.hpp"
#include "caffe/graph/typed_net.hpp"
#include "caffe/layer/layer_traits.hpp"
#include "caffe/layer/layer_types.hpp"
#include "caffe/layer/type_of_top.hpp"

namespace caffe {
namespace {

template <class T> bool Has(const std::vector<T>& list, T value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

bool Supports(const LayerParameter& layer, DataType type) {
  const LayerTraits& traits = TraitsOf(layer.type());
  if (!Has(traits.types, type.is_custom() ? kFloat : type)) return false;
  return !type.is_quantized() || !traits.quantizes || traits.quantizes(layer);
}

// A type is set by its number or by its name; by both only if they agree.
bool HasBottomType(const LayerParameter& layer) {
  return layer.has_bottom_data_type() || layer.has_bottom_data_type_name();
}
bool HasComputeType(const LayerParameter& layer) {
  return layer.has_compute_data_type() || layer.has_compute_data_type_name();
}
bool HasTopType(const LayerParameter& layer) {
  return layer.has_top_data_type() || layer.has_top_data_type_name();
}

DataType NamedType(bool has_number, DataTypeProto number, const std::string& name,
                   const char* field) {
  if (name.empty()) {
    CAFFE_CHECK(number != CAFFE_CUSTOM, field, ": CAFFE_CUSTOM needs ", field,
                "_name, the name of the type");
    return DataTypeByProto(number);
  }
  const DataType type = DataTypeByName(name);
  CAFFE_CHECK(!has_number || type.info().proto == number, field, " is ", DataTypeProto_Name(number),
              ", but ", field, "_name is '", name, "'; set one of them");
  return type;
}
DataType BottomType(const LayerParameter& layer) {
  return NamedType(layer.has_bottom_data_type(), layer.bottom_data_type(),
                   layer.bottom_data_type_name(), "bottom_data_type");
}
DataType ComputeType(const LayerParameter& layer) {
  return NamedType(layer.has_compute_data_type(), layer.compute_data_type(),
                   layer.compute_data_type_name(), "compute_data_type");
}
DataType TopType(const LayerParameter& layer) {
  return NamedType(layer.has_top_data_type(), layer.top_data_type(), layer.top_data_type_name(),
                   "top_data_type");
}

// How layers use a blob.
struct Use {
  bool label = false, number = false;
};

// How each top of each layer is used, also through layers that follow their bottom.
std::vector<std::vector<Use>> UsesOfTops(const NetParameter& net) {
  std::vector<std::vector<Use>> uses(net.layer_size());
  std::map<std::string, Use> blobs;  // of their current versions, from the last layer to the first
  for (int index = net.layer_size() - 1; index >= 0; --index) {
    const LayerParameter& layer = net.layer(index);
    const LayerTraits& traits = TraitsOf(layer.type());
    Use any;
    for (const std::string& top : layer.top()) {
      uses[index].push_back(blobs[top]);
      any.label |= blobs[top].label;
      any.number |= blobs[top].number;
    }
    for (const std::string& top : layer.top()) blobs.erase(top);
    for (int b = 0; b < layer.bottom_size(); ++b) {
      Use& use = blobs[layer.bottom(b)];
      if (Has(traits.float_bottoms, b)) {
        use.label = true;
      } else if (traits.moves_elements && !HasOwnTypes(layer)) {
        use.label |= any.label;
        use.number |= any.number;
      } else {
        use.number = true;
        if (IsInPlace(layer, b) && !HasOwnTypes(layer)) use.label |= uses[index][b].label;
      }
    }
  }
  return uses;
}

// Whether a top counts as a loss by a loss_weight, although the layer itself need not be one.
bool HasWeightedTop(const LayerParameter& layer) {
  const int given = std::min(layer.loss_weight_size(), layer.top_size());
  for (int t = TraitsOf(layer.type()).loss ? 1 : 0; t < given; ++t) {
    if (layer.loss_weight(t) != 0) return true;
  }
  return false;
}

// Whether a layer in a type of a user computes in double. What computes nothing has no simulation
// type, and what computes in the codes themselves has its own.
bool SimulatesDouble(const LayerTraits& traits, DataType type) {
  const bool computes = !traits.data && !traits.moves_elements;
  return type.is_custom() && type.info().simulates_double && computes &&
         !(traits.own_function && traits.own_function(type));
}

// Whether bottom 0 has the mode in which ranges are those of the values of each forward.
bool HasDynamicMode(const LayerParameter& layer) {
  return layer.bottom_quantizer_size() > 0 &&
         layer.bottom_quantizer(0).mode() == CAFFE_QUANT_DYNAMIC;
}
// The same, or the mode of the net says so.
bool IsDynamic(const NetParameter& net, const LayerParameter& layer) {
  const bool own = layer.bottom_quantizer_size() > 0 && layer.bottom_quantizer(0).has_mode();
  return own ? HasDynamicMode(layer) : net.state().quantizer_mode() == CAFFE_QUANT_DYNAMIC;
}

// The types of a layer in mode dynamic whose codes would be of a type.
TypeTriple DynamicTypes(const LayerParameter& layer, const LayerTraits& traits, DataType codes) {
  if (!traits.dynamic || !traits.dynamic(layer)) return TypeTriple::Equal(kFloat);
  const auto is_float = [](bool has, auto type) { return !has || type() == kFloat; };
  CAFFE_CHECK(is_float(HasBottomType(layer), [&] { return BottomType(layer); }) &&
                  is_float(HasTopType(layer), [&] { return TopType(layer); }),
              "bottoms and tops are float in mode CAFFE_QUANT_DYNAMIC; remove bottom_data_type and "
              "top_data_type, and set compute_data_type");
  CAFFE_CHECK(codes == kQuant8, "codes of type ", codes.name(),
              " need ranges that were observed; mode CAFFE_QUANT_DYNAMIC is for "
              "CAFFE_INT8_QUANTIZED");
  return {kQuant8, kFloat, kFloat};
}

}  // namespace

bool FollowsBottom(const LayerParameter& layer) {
  return IsInPlace(layer, 0) || TraitsOf(layer.type()).moves_elements;
}

bool HasOwnTypes(const LayerParameter& layer) {
  return HasComputeType(layer) || HasBottomType(layer) || HasTopType(layer);
}

bool ReadsAsItIs(DataType type) { return type.is_float() && !type.is_custom(); }

TypedNet AssignTypes(const NetParameter& net) {
  TypedNet typed;
  typed.keeps_gradients = net.state().phase() == TRAIN || net.force_backward();
  const DataType net_type =
      NamedType(net.has_data_type(), net.data_type(), net.data_type_name(), "data_type");
  CheckLayerTypes(net);
  const std::vector<std::vector<Use>> uses = UsesOfTops(net);
  // Narrow types cannot represent large labels exactly; double can.
  const auto is_label = [&](const Use& use) {
    return use.label && !(net_type == kDouble && use.number);
  };
  std::map<std::string, DataType> blob_types;
  for (int index = 0; index < net.layer_size(); ++index) {
    TypedLayer& typed_layer = typed.layers.emplace_back();
    typed_layer.layer = net.layer(index);
    const LayerParameter& layer = typed_layer.layer;
    const LayerTraits& traits = TraitsOf(layer.type());
    TypeTriple& types = typed_layer.types;
    try {
      const bool own_types = HasOwnTypes(layer);
      typed_layer.reads_any_float = traits.reads_any_float && !own_types;
      const bool source = traits.data && !own_types;
      const DataType bottom_type = layer.bottom_size() > 0 && blob_types.count(layer.bottom(0))
                                       ? blob_types.at(layer.bottom(0))
                                       : net_type;
      if (traits.converts) {
        types.in = HasBottomType(layer) ? BottomType(layer) : bottom_type;
        types.out = HasTopType(layer) ? TopType(layer) : net_type;
        types.compute = types.in == kDouble || types.out == kDouble ? kDouble : kFloat;
      } else {
        DataType compute = net_type;
        if (HasComputeType(layer)) {
          compute = ComputeType(layer);
        } else if (HasBottomType(layer)) {
          compute = BottomType(layer);
        } else if (HasTopType(layer)) {
          compute = TopType(layer);
        } else if (layer.bottom_size() > 0 && FollowsBottom(layer)) {
          compute = bottom_type;
        } else if (traits.data &&
                   (net_type.is_quantized() ||
                    (layer.top_size() > 0 &&
                     std::all_of(uses[index].begin(), uses[index].end(), is_label)))) {
          // Data are real numbers, also in quantized nets.
          compute = kFloat;
        }
        const bool dynamic = compute.is_quantized() && IsDynamic(net, layer);
        CAFFE_CHECK(compute.is_quantized() || !HasDynamicMode(layer), "bottom_quantizer has mode ",
                    "CAFFE_QUANT_DYNAMIC, but the layer computes in ", compute.name(),
                    "; set compute_data_type: CAFFE_INT8_QUANTIZED, or remove the mode");
        // Sources write their items one after the other, as they are.
        const bool has_scale = compute.is_scaled() || compute.is_packed();
        if (traits.data && !traits.input && has_scale) compute = kFloat;
        // Losses and other float layers stay float in quantized nets.
        if (!own_types && compute.is_quantized() && !Supports(layer, compute)) compute = kFloat;
        // Losses are float in every net: a narrow type would overflow, or round all but few digits
        // away.
        const bool narrow = compute.is_float() && compute != kDouble;
        if (!own_types && narrow && !traits.data && !FollowsBottom(layer) &&
            HasWeightedTop(layer)) {
          compute = kFloat;
        }
        // Users' layers read numbers, and blobs of a user's type hold codes.
        if (typed_layer.reads_any_float && compute.is_custom()) compute = kFloat;
        types = TypeTriple::Equal(compute);
        if (dynamic) {
          types = DynamicTypes(layer, traits, compute);
          typed_layer.dynamic = types.compute.is_quantized();
        } else {
          if (traits.float_ends && compute.is_quantized()) types = {compute, kFloat, kFloat};
          if (HasBottomType(layer)) types.in = BottomType(layer);
          if (HasTopType(layer)) types.out = TopType(layer);
          if (SimulatesDouble(traits, compute)) types.compute = kDouble;
        }
        // Data layers compute nothing: they write every float kind, and no cast has to rename a
        // top.
        if (traits.data && types.out.is_float()) types = TypeTriple::Equal(types.out);
      }
      for (int t = 0; t < layer.top_size(); ++t) {
        DataType type = types.out;
        if (typed_layer.reads_any_float && IsInPlace(layer, t) && blob_types.count(layer.top(t)) &&
            ReadsAsItIs(blob_types.at(layer.top(t)))) {
          type = blob_types.at(layer.top(t));
        } else {
          type = source && is_label(uses[index][t]) ? kFloat : TypeOfTop(traits, t, type);
        }
        blob_types[layer.top(t)] = type;
        typed_layer.tops.push_back(type);
      }
    } catch (const Error& error) {
      CAFFE_THROW(layer.name(), " (", layer.type(), "): ", error.what());
    }
  }
  const bool used = std::any_of(typed.layers.begin(), typed.layers.end(),
                                [](const TypedLayer& layer) { return layer.dynamic; });
  if (net.state().quantizer_mode() == CAFFE_QUANT_DYNAMIC && !used) {
    log::Warning(Concat("net '", net.name(),
                        "': state has quantizer_mode CAFFE_QUANT_DYNAMIC, but ",
                        "no layer multiplies codes in this mode; data_type: CAFFE_INT8_QUANTIZED ",
                        "gives Convolution and InnerProduct layers codes"));
  }
  return typed;
}

}  // namespace caffe

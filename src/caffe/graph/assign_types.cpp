#include <algorithm>
#include <map>

#include "caffe.pb.h"
#include "caffe/core/data_type.hpp"
#include "caffe/core/error.hpp"
#include "caffe/graph/passes.hpp"
#include "caffe/layer/layer_traits.hpp"
#include "caffe/layer/layer_types.hpp"

namespace caffe {
namespace {

template <class T> bool Has(const std::vector<T>& list, T value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

bool InPlace(const LayerParameter& layer, int index) {
  return index < layer.bottom_size() && index < layer.top_size() &&
         layer.bottom(index) == layer.top(index);
}

bool WithoutArithmetic(const LayerParameter& layer) {
  static const char* const kinds[] = {"Split", "Flatten", "Silence", "Reshape",        "Concat",
                                      "Slice", "Crop",    "Permute", "ShuffleChannel", "Tile"};
  return std::any_of(std::begin(kinds), std::end(kinds),
                     [&](const char* kind) { return layer.type() == kind; });
}

// They take whatever type comes in.
bool FollowsBottom(const LayerParameter& layer) {
  return InPlace(layer, 0) || WithoutArithmetic(layer);
}

// The layer's types are the user's choice.
bool HasOwnTypes(const LayerParameter& layer) {
  return layer.has_compute_data_type() || layer.has_bottom_data_type() || layer.has_top_data_type();
}

// Layers of users: each bottom may have another type.
bool ReadsAsTheyAre(const LayerParameter& layer) {
  return TraitsOf(layer.type()).data && layer.bottom_size() > 0 && !HasOwnTypes(layer);
}

// What a blob is to the layers that read it.
struct Use {
  bool label = false, number = false;
};

// The use of each top of each layer, also through layers that follow their bottom.
std::vector<std::vector<Use>> UsesOfTops(const NetParameter& net) {
  std::vector<std::vector<Use>> uses(net.layer_size());
  std::map<std::string, Use> blobs;  // of their present versions, from the last layer to the first
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
      } else if (WithoutArithmetic(layer) && !HasOwnTypes(layer)) {
        use.label |= any.label;
        use.number |= any.number;
      } else {
        use.number = true;
        if (InPlace(layer, b) && !HasOwnTypes(layer)) use.label |= uses[index][b].label;
      }
    }
  }
  return uses;
}

}  // namespace

DataType TopType(const LayerParameter& layer, int top) {
  return DataTypeByProto(top < layer.top_type_size() ? layer.top_type(top) : layer.top_data_type());
}

NetParameter AssignTypes(const NetParameter& net) {
  NetParameter typed = net;
  const DataType net_type = net.has_data_type() ? DataTypeByProto(net.data_type()) : kFloat;
  CheckLayerTypes(net);
  const std::vector<std::vector<Use>> uses = UsesOfTops(net);
  // Large labels are no numbers of narrow types. A double holds them, and may hold more.
  const auto is_label = [&](const Use& use) {
    return use.label && !(net_type == kDouble && use.number);
  };
  std::map<std::string, DataType> blob_types;
  for (int index = 0; index < typed.layer_size(); ++index) {
    LayerParameter& layer = *typed.mutable_layer(index);
    const LayerTraits& traits = TraitsOf(layer.type());
    try {
      CAFFE_CHECK(layer.top_type_size() == 0,
                  "top_type is what the library writes for itself; give top_data_type");
      const bool own_types = HasOwnTypes(layer), as_they_are = ReadsAsTheyAre(layer);
      const bool source = traits.data && !own_types;
      const DataType bottom_type = layer.bottom_size() > 0 && blob_types.count(layer.bottom(0))
                                       ? blob_types.at(layer.bottom(0))
                                       : net_type;
      TypeTriple types;
      if (traits.converts) {
        types.in =
            layer.has_bottom_data_type() ? DataTypeByProto(layer.bottom_data_type()) : bottom_type;
        types.out = layer.has_top_data_type() ? DataTypeByProto(layer.top_data_type()) : net_type;
        types.compute = types.in == kDouble || types.out == kDouble ? kDouble : kFloat;
      } else {
        DataType compute = net_type;
        if (layer.has_compute_data_type()) {
          compute = DataTypeByProto(layer.compute_data_type());
        } else if (layer.has_bottom_data_type()) {
          compute = DataTypeByProto(layer.bottom_data_type());
        } else if (layer.has_top_data_type()) {
          compute = DataTypeByProto(layer.top_data_type());
        } else if (layer.bottom_size() > 0 && FollowsBottom(layer)) {
          compute = bottom_type;
        } else if (traits.data &&
                   (net_type.is_quantized() ||
                    (layer.top_size() > 0 &&
                     std::all_of(uses[index].begin(), uses[index].end(), is_label)))) {
          // Data are numbers, also in a net of codes.
          compute = kFloat;
        }
        // Losses and the like stay float among codes.
        if (!own_types && compute.is_quantized() && !Has(traits.types, compute)) compute = kFloat;
        types = TypeTriple::Equal(compute);
        if (layer.has_bottom_data_type()) types.in = DataTypeByProto(layer.bottom_data_type());
        if (layer.has_top_data_type()) types.out = DataTypeByProto(layer.top_data_type());
        // Sources compute nothing: they write any float kind, and no cast has to rename a top.
        if (traits.data && types.out.is_float()) types = TypeTriple::Equal(types.out);
      }
      if (!as_they_are) {
        layer.set_bottom_data_type(static_cast<DataTypeProto>(types.in.info().proto));
      }
      layer.set_compute_data_type(static_cast<DataTypeProto>(types.compute.info().proto));
      layer.set_top_data_type(static_cast<DataTypeProto>(types.out.info().proto));
      bool differ = false;
      for (int t = 0; t < layer.top_size(); ++t) {
        DataType type = types.out;
        if (as_they_are && InPlace(layer, t) && blob_types.count(layer.top(t)) &&
            blob_types.at(layer.top(t)).is_float()) {
          type = blob_types.at(layer.top(t));
        } else if (Has(traits.float_tops, t) || (source && is_label(uses[index][t]))) {
          type = kFloat;
        }
        blob_types[layer.top(t)] = type;
        layer.add_top_type(static_cast<DataTypeProto>(type.info().proto));
        differ = differ || type != types.out;
      }
      if (!differ) layer.clear_top_type();
    } catch (const Error& error) {
      CAFFE_THROW(layer.name(), " (", layer.type(), "): ", error.what());
    }
  }
  return typed;
}

}  // namespace caffe

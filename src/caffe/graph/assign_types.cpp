#include <algorithm>
#include <map>

#include "caffe.pb.h"
#include "caffe/core/data_type.hpp"
#include "caffe/core/error.hpp"
#include "caffe/graph/passes.hpp"
#include "caffe/layer/layer_traits.hpp"

namespace caffe {
namespace {

template <class T> bool Has(const std::vector<T>& list, T value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// Layers without arithmetic: they take whatever type comes in.
bool FollowsBottom(const LayerParameter& layer) {
  static const char* const kinds[] = {"Split", "Flatten", "Silence", "Reshape", "Concat", "Slice"};
  const bool in_place =
      layer.bottom_size() > 0 && layer.top_size() > 0 && layer.bottom(0) == layer.top(0);
  return in_place || std::any_of(std::begin(kinds), std::end(kinds),
                                 [&](const char* kind) { return layer.type() == kind; });
}

// True if everybody who reads the layer's tops reads them as labels.
bool OnlyLabels(const NetParameter& net, int index) {
  const LayerParameter& layer = net.layer(index);
  bool read = false;
  for (const std::string& top : layer.top()) {
    for (int i = index + 1; i < net.layer_size(); ++i) {
      const LayerParameter& reader = net.layer(i);
      const LayerTraits& traits = TraitsOf(reader.type());
      for (int b = 0; b < reader.bottom_size(); ++b) {
        if (reader.bottom(b) != top) continue;
        if (!Has(traits.float_bottoms, b)) return false;
        read = true;
      }
    }
  }
  return read;
}

}  // namespace

NetParameter AssignTypes(const NetParameter& net) {
  NetParameter typed = net;
  const DataType net_type = net.has_data_type() ? DataTypeByProto(net.data_type()) : kFloat;
  for (const LayerParameter& layer : net.layer()) {
    try {
      TraitsOf(layer.type());
    } catch (const Error& error) {
      CAFFE_THROW("layer ", layer.name(), ": ", error.what());
    }
  }
  std::map<std::string, DataType> blob_types;
  for (int index = 0; index < typed.layer_size(); ++index) {
    LayerParameter& layer = *typed.mutable_layer(index);
    const LayerTraits& traits = TraitsOf(layer.type());
    try {
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
        } else if (traits.data && (net_type.is_quantized() || OnlyLabels(net, index))) {
          // Data are numbers, also in a net of codes.
          compute = kFloat;
        }
        const bool asked = layer.has_compute_data_type() || layer.has_bottom_data_type() ||
                           layer.has_top_data_type();
        // Losses and the like stay float among codes.
        if (!asked && compute.is_quantized() && !Has(traits.types, compute)) compute = kFloat;
        types = TypeTriple::Equal(compute);
        if (layer.has_bottom_data_type()) types.in = DataTypeByProto(layer.bottom_data_type());
        if (layer.has_top_data_type()) types.out = DataTypeByProto(layer.top_data_type());
      }
      layer.set_bottom_data_type(static_cast<DataTypeProto>(types.in.info().proto));
      layer.set_compute_data_type(static_cast<DataTypeProto>(types.compute.info().proto));
      layer.set_top_data_type(static_cast<DataTypeProto>(types.out.info().proto));
      for (int t = 0; t < layer.top_size(); ++t) {
        blob_types[layer.top(t)] = Has(traits.float_tops, t) ? kFloat : types.out;
      }
    } catch (const Error& error) {
      CAFFE_THROW(layer.name(), " (", layer.type(), "): ", error.what());
    }
  }
  return typed;
}

}  // namespace caffe

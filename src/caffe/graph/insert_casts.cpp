#include <algorithm>
#include <map>

#include "caffe.pb.h"
#include "caffe/core/data_type.hpp"
#include "caffe/core/error.hpp"
#include "caffe/graph/passes.hpp"
#include "caffe/layer/layer_traits.hpp"

namespace caffe {
namespace {

void AddCast(NetParameter* net, const std::string& name, const std::string& from,
             DataType from_type, const std::string& to, DataType to_type, Phase phase) {
  LayerParameter* cast = net->add_layer();
  cast->set_name(name);
  cast->set_type("Quantizer");
  cast->add_bottom(from);
  cast->add_top(to);
  cast->set_phase(phase);
  cast->set_bottom_data_type(static_cast<DataTypeProto>(from_type.info().proto));
  const bool wide = from_type == kDouble || to_type == kDouble;
  cast->set_compute_data_type(wide ? CAFFE_DOUBLE : CAFFE_FLOAT);
  cast->set_top_data_type(static_cast<DataTypeProto>(to_type.info().proto));
}

bool Has(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// Whether narrow -> wide -> narrow keeps every value, codes of one range included.
bool ComesBack(DataType narrow, DataType wide) {
  if (wide == kDouble) return narrow != kDouble;
  return wide == kFloat && narrow != kDouble && narrow != kFloat;
}

}  // namespace

NetParameter InsertCasts(const NetParameter& net) {
  NetParameter out = net;
  out.clear_layer();
  std::map<std::string, DataType> types;             // of the present version of each blob
  std::map<std::string, std::string> present_casts;  // "<blob>:<type>" -> the cast blob
  std::map<std::string, int> cast_versions;
  std::map<std::string, std::string> cast_sources;  // a top made by a cast -> the cast's source
  for (const LayerParameter& source : net.layer()) {
    LayerParameter layer = source;
    const LayerTraits& traits = TraitsOf(layer.type());
    const DataType compute = DataTypeByProto(layer.compute_data_type());
    const DataType top_type = DataTypeByProto(layer.top_data_type());
    // Layers other than Quantizer compute in one type; casts provide other types at their edges.
    const DataType in = traits.converts ? DataTypeByProto(layer.bottom_data_type()) : compute;
    const bool as_they_are = !layer.has_bottom_data_type();
    const DataType produced = traits.converts ? top_type : compute;
    layer.set_bottom_data_type(static_cast<DataTypeProto>(in.info().proto));
    layer.set_top_data_type(static_cast<DataTypeProto>(produced.info().proto));

    for (int b = 0; b < layer.bottom_size(); ++b) {
      const std::string blob = layer.bottom(b);
      const DataType wanted = Has(traits.float_bottoms, b) ? kFloat : in;
      const auto found = types.find(blob);
      if (found == types.end() || found->second == wanted) continue;
      if (as_they_are && found->second.is_float()) continue;
      const bool in_place =
          std::find(source.top().begin(), source.top().end(), blob) != source.top().end();
      CAFFE_CHECK(!in_place, layer.name(), " (", layer.type(), "): works in place on blob ", blob,
                  ", which is ", found->second.name(), ", but the layer computes in ",
                  wanted.name(), "; give it a top of its own");
      // A cast back to the source's type: read the source instead.
      const auto origin = cast_sources.find(blob);
      if (origin != cast_sources.end() && types.at(origin->second) == wanted &&
          ComesBack(wanted, found->second)) {
        layer.set_bottom(b, origin->second);
        continue;
      }
      std::string& cast = present_casts[blob + ":" + wanted.name()];
      if (cast.empty()) {
        cast = blob + "_as_" + wanted.name();
        // The blob was rewritten in place since the last cast: ip_as_half_2.
        const int version = ++cast_versions[cast];
        if (version > 1) cast += "_" + std::to_string(version);
        AddCast(&out, cast, blob, found->second, cast, wanted, layer.phase());
        types[cast] = wanted;
      }
      layer.set_bottom(b, cast);
    }
    std::vector<std::pair<std::string, std::string>> top_casts;  // produced blob, wanted blob
    for (int t = 0; t < layer.top_size(); ++t) {
      const std::string blob = layer.top(t);
      // This writes a new version of the blob: casts of the old one are stale.
      for (auto& [key, cast] : present_casts) {
        if (key.rfind(blob + ":", 0) == 0) cast.clear();
      }
      cast_sources.erase(blob);
      const DataType type = TopType(source, t);
      // Tops of a fixed type, such as labels, are not cast.
      if (Has(traits.float_tops, t) || type != top_type || produced == top_type) {
        types[blob] = type;
      } else {
        const std::string inner = blob + "_in_" + produced.name();
        layer.set_top(t, inner);
        if (t < layer.top_type_size()) layer.set_top_type(t, layer.top_data_type());
        types[inner] = produced;
        types[blob] = top_type;
        top_casts.emplace_back(inner, blob);
        cast_sources[blob] = inner;
      }
    }
    const Phase phase = layer.phase();
    *out.add_layer() = std::move(layer);
    for (const auto& [inner, blob] : top_casts) {
      AddCast(&out, blob + "_from_" + inner, inner, produced, blob, top_type, phase);
    }
  }
  return out;
}

bool IsInternalLayer(const std::string& layer_name, const std::string& layer_type,
                     const NetParameter& user_net) {
  if (layer_type != "Split" && layer_type != "Quantizer") return false;
  for (const LayerParameter& layer : user_net.layer()) {
    if (layer.name() == layer_name) return false;
  }
  return true;
}

}  // namespace caffe

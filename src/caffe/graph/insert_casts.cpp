#include <algorithm>
#include <map>
#include <optional>

#include "caffe/core/error.hpp"
#include "caffe/graph/passes.hpp"
#include "caffe/graph/typed_net.hpp"
#include "caffe/layer/layer_traits.hpp"
#include "caffe/layer/type_of_top.hpp"

namespace caffe {
namespace {

TypedLayer Cast(const std::string& name, const std::string& from, DataType from_type,
                const std::string& to, DataType to_type, Phase phase) {
  TypedLayer cast;
  cast.added = true;
  cast.layer.set_name(name);
  cast.layer.set_type("Quantizer");
  cast.layer.add_bottom(from);
  cast.layer.add_top(to);
  cast.layer.set_phase(phase);
  const bool wide = from_type == kDouble || to_type == kDouble;
  cast.types = {wide ? kDouble : kFloat, from_type, to_type};
  cast.tops = {to_type};
  return cast;
}

bool Has(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// Whether narrow -> wide -> narrow keeps every value, codes of one range included.
bool ComesBack(DataType narrow, DataType wide) {
  if (wide == kDouble) return narrow != kDouble;
  return wide == kFloat && narrow != kDouble && narrow != kFloat;
}

// The types in which a layer computes with the fewest casts at its edges. `bottom` is the type of
// all its bottoms.
TypeTriple TypesWithEdges(const TypedLayer& source, const LayerTraits& traits, DataType bottom) {
  const DataType compute = source.types.compute, top = source.types.out;
  const auto works = [&](const TypeTriple& wanted) -> std::optional<TypeTriple> {
    if (wanted == TypeTriple::Equal(compute)) return std::nullopt;
    return traits.edges(wanted);
  };
  for (const TypeTriple& wanted :
       {TypeTriple{compute, bottom, top}, TypeTriple{compute, compute, top},
        TypeTriple{compute, bottom, compute}}) {
    if (const auto found = works(wanted)) return *found;
  }
  return TypeTriple::Equal(compute);
}

// The type of all bottoms of a layer; nothing if they differ, and for layers in place.
std::optional<DataType> TypeOfBottoms(const LayerParameter& layer,
                                      const std::map<std::string, DataType>& types) {
  std::optional<DataType> all;
  for (const std::string& blob : layer.bottom()) {
    const auto found = types.find(blob);
    const auto& tops = layer.top();
    const bool in_place = std::find(tops.begin(), tops.end(), blob) != tops.end();
    if (in_place || found == types.end() || (all && *all != found->second)) return std::nullopt;
    all = found->second;
  }
  return all;
}

TypedNet Insert(const TypedNet& net, bool edges) {
  TypedNet out;
  out.keeps_gradients = net.keeps_gradients;
  out.casts_moved = net.casts_moved;
  std::map<std::string, DataType> types;             // of the present version of each blob
  std::map<std::string, std::string> present_casts;  // "<blob>:<type>" -> the cast blob
  std::map<std::string, int> cast_versions;
  std::map<std::string, std::string> cast_sources;  // a top made by a cast -> the cast's source
  for (const TypedLayer& source : net.layers) {
    TypedLayer typed = source;
    LayerParameter& layer = typed.layer;
    const LayerTraits& traits = TraitsOf(layer.type());
    // Layers other than Quantizer compute in one type; casts provide other types at their edges.
    const bool codes = source.types.compute.is_quantized();
    if (traits.float_ends && codes) {
      typed.types = {source.types.compute, kFloat, kFloat};
    } else if (!traits.converts && !typed.dynamic) {
      typed.types = TypeTriple::Equal(source.types.compute);
    }
    const auto bottom_type = TypeOfBottoms(source.layer, types);
    // Codes have no gradients.
    const bool forward_only = codes || !net.keeps_gradients;
    if (edges && traits.edges && !typed.dynamic && bottom_type && forward_only) {
      typed.types = TypesWithEdges(source, traits, *bottom_type);
    }
    const DataType in = typed.types.in, produced = typed.types.out, wanted_top = source.types.out;

    for (int b = 0; b < layer.bottom_size(); ++b) {
      const std::string blob = layer.bottom(b);
      const DataType wanted = Has(traits.float_bottoms, b) ? kFloat : in;
      const auto found = types.find(blob);
      if (found == types.end() || found->second == wanted) continue;
      if (source.reads_any_float && ReadsAsItIs(found->second)) continue;
      const auto& tops = source.layer.top();
      const bool in_place = std::find(tops.begin(), tops.end(), blob) != tops.end();
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
        out.layers.push_back(Cast(cast, blob, found->second, cast, wanted, layer.phase()));
        types[cast] = wanted;
      }
      layer.set_bottom(b, cast);
    }
    std::vector<TypedLayer> top_casts;
    for (int t = 0; t < layer.top_size(); ++t) {
      const std::string blob = layer.top(t);
      // This writes a new version of the blob: casts of the old one are stale.
      const std::string prefix = blob + ":";
      for (auto cast = present_casts.lower_bound(prefix);
           cast != present_casts.end() && cast->first.rfind(prefix, 0) == 0; ++cast) {
        cast->second.clear();
      }
      cast_sources.erase(blob);
      const DataType type = source.tops[t];
      const bool loss = traits.loss && t == 0;
      const DataType own = loss ? TypeOfTop(traits, t, produced) : produced;
      // Tops of a fixed type, such as labels, are not cast.
      if (Has(traits.float_tops, t) || (type != wanted_top && !loss) || own == type) {
        types[blob] = type;
        continue;
      }
      const std::string inner = blob + "_in_" + own.name();
      layer.set_top(t, inner);
      typed.tops[t] = types[inner] = own;
      types[blob] = type;
      cast_sources[blob] = inner;
      top_casts.push_back(Cast(blob + "_from_" + inner, inner, own, blob, type, layer.phase()));
    }
    out.layers.push_back(std::move(typed));
    for (TypedLayer& cast : top_casts) out.layers.push_back(std::move(cast));
  }
  return out;
}

int Casts(const TypedNet& net) {
  return static_cast<int>(std::count_if(net.layers.begin(), net.layers.end(),
                                        [](const TypedLayer& typed) { return typed.added; }));
}

}  // namespace

TypedNet InsertCasts(const TypedNet& net) {
  TypedNet out = Insert(net, true);
  out.casts_omitted = Casts(Insert(net, false)) - Casts(out);
  return out;
}

}  // namespace caffe

#include "caffe/layer/layer_types.hpp"

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/near_name.hpp"
#include "caffe/io/foreign_names.hpp"
#include "caffe/io/unknown_names.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "no_layer_type.hpp"

namespace caffe {
namespace {

// The part of a message about a type that no known Caffe has.
std::string Hint(const std::string& type) {
  const std::string elsewhere = LayerRegistry::Get().Elsewhere(type);
  if (!elsewhere.empty()) return ": " + elsewhere;
  const std::string near = NearName(type, LayerRegistry::Get().Names());
  return near.empty() ? "; `caffe layers` lists all" : Concat("; did you mean '", near, "'?");
}

}  // namespace

std::string ThereIsNoLayerType(const std::string& type) {
  const std::string description = DescribeForeignLayer(type);
  return Concat("there is no layer type '", type, "'",
                description.empty() ? Hint(type) : "; " + description);
}

LayerLines LayerLines::Of(const std::vector<int>& places) const {
  LayerLines some{file, {}, {}};
  for (const int place : places) {
    for (OptionalName name : names) {
      if (name.layer != place) continue;
      name.layer = static_cast<int>(some.lines.size());
      some.names.push_back(std::move(name));
    }
    some.lines.push_back(static_cast<size_t>(place) < lines.size() ? lines[place] : 0);
  }
  return some;
}

void CheckLayerTypes(const NetParameter& net, const LayerLines& lines) {
  const LayerRegistry& registry = LayerRegistry::Get();
  UnknownNames unknown;
  for (int i = 0; i < net.layer_size(); ++i) {
    const LayerParameter& layer = net.layer(i);
    const bool known = registry.Has(layer.type());
    std::string own_fields;  // of an unknown type
    bool has_names = false;
    for (const OptionalName& name : lines.names) {
      if (name.layer != i) continue;
      has_names = true;
      if (known || name.layer_field.empty()) {
        unknown.Add(name.line, name.what, name.description);
      } else {
        own_fields += (own_fields.empty() ? " with " : ", ") + name.layer_field;
      }
    }
    // The parser replaces an unknown type of the V1 format by none.
    if (known || (layer.type().empty() && has_names)) continue;
    const std::string description = DescribeForeignLayer(layer.type());
    unknown.Add(
        static_cast<size_t>(i) < lines.lines.size() ? lines.lines[i] : 0,
        Concat(LayerLabel(layer.name(), layer.type()), own_fields, ": there is no layer type '",
               layer.type(), "'", description.empty() ? Hint(layer.type()) : ""),
        description);
  }
  CAFFE_CHECK(unknown.empty(), lines.file.empty() ? "" : lines.file + ": ", unknown.ToString());
}

}  // namespace caffe

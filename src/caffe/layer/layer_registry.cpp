#include "caffe/layer/layer_registry.hpp"

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "no_layer_type.hpp"

namespace caffe {

LayerRegistry& LayerRegistry::Get() {
  static auto* const registry = [] {
    auto* all = new LayerRegistry;
    RegisterAllLayers(all);
    return all;
  }();
  return *registry;
}

void LayerRegistry::AddCreators(const std::string& name, LayerTraits traits,
                                std::map<TypeTriple, Creator> creators) {
  CAFFE_CHECK(!Has(name), "layer type ", name, " is registered already");
  entries_[name] = {std::move(traits), std::move(creators), nullptr};
}

void LayerRegistry::AddUntyped(const std::string& name, LayerTraits traits, Creator creator) {
  CAFFE_CHECK(!Has(name), "layer type ", name, " is registered already");
  entries_[name] = {std::move(traits), {}, std::move(creator)};
}

void LayerRegistry::AddElsewhere(const std::string& name, const std::string& hint) {
  elsewhere_[name] = hint;
}

std::string LayerRegistry::Elsewhere(const std::string& name) const {
  const auto found = elsewhere_.find(name);
  return found == elsewhere_.end() ? "" : found->second;
}

const LayerRegistry::Entry& LayerRegistry::Find(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found != entries_.end()) return found->second;
  CAFFE_THROW(ThereIsNoLayerType(name));
}

const LayerTraits& LayerRegistry::Traits(const std::string& name) const {
  return Find(name).traits;
}

const LayerTraits& TraitsOf(const std::string& type) { return LayerRegistry::Get().Traits(type); }

BackwardReads BackwardReadsOf(const LayerParameter& layer) {
  const LayerTraits& traits = TraitsOf(layer.type());
  if (!traits.backward) return {};
  if (traits.backward_reads) return traits.backward_reads(layer);
  return {{BackwardReads::kAll}, {BackwardReads::kAll}};
}

std::optional<TypeTriple> ElementwiseEdges(const TypeTriple& wanted) {
  for (const DataType type : {wanted.compute, wanted.in, wanted.out}) {
    if (!type.is_float() || type == kDouble) return std::nullopt;
  }
  if (wanted.in == wanted.out) return TypeTriple::Equal(wanted.in);
  if (wanted.in == kFloat || wanted.out == kFloat) return TypeTriple{kFloat, wanted.in, wanted.out};
  return std::nullopt;
}

std::optional<TypeTriple> ProductEdges(const TypeTriple& wanted) {
  const bool narrow = wanted.compute.is_float() && wanted.compute != kDouble;
  if (narrow && wanted.in == wanted.compute && wanted.out == kFloat) return wanted;
  return std::nullopt;
}

std::optional<TypeTriple> ProductOrCodeEdges(const TypeTriple& wanted) {
  if (wanted == TypeTriple{kQuant8, kQuant8, kFloat}) return wanted;
  return ProductEdges(wanted);
}

bool SharesBottomMemory(const LayerParameter& layer) {
  const TopMemory memory = TraitsOf(layer.type()).top_memory;
  if (memory == TopMemory::kSharedIfAlone) {
    return layer.bottom_size() == 1 && layer.top_size() == 1;
  }
  return memory == TopMemory::kShared;
}

std::shared_ptr<LayerBase> LayerRegistry::Create(const LayerParameter& parameter,
                                                 const LayerContext& context) const {
  const Entry& entry = Find(parameter.type());
  const auto creator = entry.creators.find(context.types);
  if (creator != entry.creators.end()) return creator->second(parameter, context);
  if (entry.any) return entry.any(parameter, context);
  // Layers that compute in float kinds also compute in types of users, and some have other types at
  // their edges: context.types has the types, and a template's parameters are only those of its
  // typed accessors.
  const TypeTriple& types = context.types;
  const bool edges = entry.traits.edges && entry.traits.edges(types) == types;
  const bool ends = entry.traits.float_ends && types == TypeTriple{types.compute, kFloat, kFloat};
  const bool dynamic = entry.traits.dynamic && types == TypeTriple{kQuant8, kFloat, kFloat};
  if (edges || ends || dynamic ||
      (types.compute.is_custom() && types == TypeTriple::Equal(types.compute))) {
    const auto wide = entry.creators.find(TypeTriple::Equal(kFloat));
    if (wide != entry.creators.end()) return wide->second(parameter, context);
  }
  std::string known;
  for (const auto& [types, create] : entry.creators) {
    known += (known.empty() ? "" : ", ") + types.name();
  }
  CAFFE_THROW(parameter.name(), " (", parameter.type(), "): cannot be used with the types ",
              context.types.name(), "; it supports ", known);
}

std::vector<std::string> LayerRegistry::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

}  // namespace caffe

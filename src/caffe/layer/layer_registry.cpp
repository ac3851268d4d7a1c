#include "caffe/layer/layer_registry.hpp"

#include <algorithm>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"

namespace caffe {

#define CAFFE_LAYER(name) void Register##name##Layer(LayerRegistry& registry);
#include "../layers/all_layers.inc"
#undef CAFFE_LAYER

namespace {

// Levenshtein's distance, for the nearest known name.
size_t Distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (std::tolower(a[i - 1]) != std::tolower(b[j - 1]));
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

}  // namespace

LayerRegistry& LayerRegistry::Get() {
  static auto* const registry = [] {
    auto* all = new LayerRegistry;
#define CAFFE_LAYER(name) Register##name##Layer(*all);
#include "../layers/all_layers.inc"
#undef CAFFE_LAYER
    return all;
  }();
  return *registry;
}

void LayerRegistry::AddCreators(const std::string& name, LayerTraits traits,
                                std::map<TypeTriple, Creator> creators) {
  CAFFE_CHECK(!Has(name), "a layer type ", name, " is registered already");
  entries_[name] = {std::move(traits), std::move(creators), nullptr};
}

void LayerRegistry::AddUntyped(const std::string& name, LayerTraits traits, Creator creator) {
  CAFFE_CHECK(!Has(name), "a layer type ", name, " is registered already");
  entries_[name] = {std::move(traits), {}, std::move(creator)};
}

const LayerRegistry::Entry& LayerRegistry::Find(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found != entries_.end()) return found->second;
  CAFFE_CHECK(name != "Python", "layers of type Python run inside Python only: use the net or the ",
              "solver from there (import caffe)");
  std::string nearest;
  size_t best = SIZE_MAX;
  for (const auto& [known, entry] : entries_) {
    const size_t distance = Distance(name, known);
    if (distance < best) {
      best = distance;
      nearest = known;
    }
  }
  CAFFE_THROW("there is no layer type '", name, "'; the nearest known one is '", nearest,
              "' (`caffe layers` lists all)");
}

const LayerTraits& LayerRegistry::Traits(const std::string& name) const {
  return Find(name).traits;
}

const LayerTraits& TraitsOf(const std::string& type) { return LayerRegistry::Get().Traits(type); }

std::shared_ptr<LayerBase> LayerRegistry::Create(const LayerParameter& parameter,
                                                 const LayerContext& context) const {
  const Entry& entry = Find(parameter.type());
  const auto creator = entry.creators.find(context.types);
  if (creator != entry.creators.end()) return creator->second(parameter, context);
  if (entry.any) return entry.any(parameter, context);
  std::string known;
  for (const auto& [types, create] : entry.creators) {
    known += (known.empty() ? "" : ", ") + types.name();
  }
  CAFFE_THROW(parameter.name(), " (", parameter.type(), "): can not be used with the types ",
              context.types.name(), "; it has ", known);
}

std::vector<std::string> LayerRegistry::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

}  // namespace caffe

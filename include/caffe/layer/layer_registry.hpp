#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "caffe/layer/layer.hpp"

namespace caffe {

// (type name, types) -> creator, and the traits of each type name.
class LayerRegistry {
 public:
  using Creator =
      std::function<std::shared_ptr<LayerBase>(const LayerParameter&, const LayerContext&)>;

  // All layers of layers/all_layers.inc.
  static LayerRegistry& Get();

  // Registers L<T, T, T> for every type of traits.types.
  template <template <class, class, class> class L>
  void Add(const std::string& name, LayerTraits traits) {
    std::map<TypeTriple, Creator> creators;
    AddTypes<L, float, half, bfloat16, double, quant8, quant16>(traits, &creators);
    AddCreators(name, std::move(traits), std::move(creators));
  }
  // One creator for every triple; for layers of users and layers that convert types.
  void AddUntyped(const std::string& name, LayerTraits traits, Creator creator);

  // A type that another module adds. Until then, error messages about the type end with `hint`.
  void AddElsewhere(const std::string& name, const std::string& hint);
  // The hint of AddElsewhere; empty for other names.
  std::string Elsewhere(const std::string& name) const;

  bool Has(const std::string& name) const { return entries_.count(name) > 0; }
  // Throws for an unknown name and suggests the nearest known one.
  const LayerTraits& Traits(const std::string& name) const;
  std::shared_ptr<LayerBase> Create(const LayerParameter& parameter,
                                    const LayerContext& context) const;
  std::vector<std::string> Names() const;

 private:
  struct Entry {
    LayerTraits traits;
    std::map<TypeTriple, Creator> creators;
    Creator any;
  };
  template <template <class, class, class> class L, class... Types>
  static void AddTypes(const LayerTraits& traits, std::map<TypeTriple, Creator>* creators) {
    (AddType<L, Types>(traits, creators), ...);
  }
  template <template <class, class, class> class L, class T>
  static void AddType(const LayerTraits& traits, std::map<TypeTriple, Creator>* creators) {
    for (DataType type : traits.types) {
      if (type != DataTypeOf<T>::value) continue;
      (*creators)[TypeTriple::Equal(type)] = [](const LayerParameter& parameter,
                                                const LayerContext& context) {
        return std::static_pointer_cast<LayerBase>(
            std::make_shared<L<T, T, T>>(parameter, context));
      };
    }
  }
  void AddCreators(const std::string& name, LayerTraits traits,
                   std::map<TypeTriple, Creator> creators);
  const Entry& Find(const std::string& name) const;

  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> elsewhere_;  // name -> hint
};

// Adds the layers of layers/all_layers.inc. Defined in layers/, which stands above this folder.
void RegisterAllLayers(LayerRegistry* registry);

}  // namespace caffe

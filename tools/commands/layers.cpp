#include <cstdio>
#include <iostream>

#include "caffe/core/error.hpp"
#include "caffe/core/json.hpp"
#include "caffe/layer/layer_registry.hpp"
#include "commands/commands.hpp"

namespace caffe {
namespace {

// "1", "2-3", "1+".
std::string Count(int low, int high) {
  if (low == high) return Concat(low);
  return high < 0 ? Concat(low, "+") : Concat(low, "-", high);
}

std::string Types(const LayerTraits& traits) {
  if (traits.converts) return "any to any";
  std::string text;
  for (DataType type : traits.types) text += (text.empty() ? "" : " ") + type.name();
  return text;
}

}  // namespace

int LayersCommand(const Options& options) {
  LayerRegistry& registry = LayerRegistry::Get();
  std::vector<std::string> names = registry.Names();
  if (!options.arguments.empty()) names = options.arguments;
  for (const std::string& name : names) registry.Traits(name);  // throws for unknown names
  std::string json;
  if (!options.json) {
    std::printf("%-20s %-8s %-6s %-9s %-9s %s\n%-20s %s\n", "LAYER", "BOTTOMS", "TOPS", "IN PLACE",
                "BACKWARD", "WHAT IT COMPUTES", "", "TYPES");
  }
  for (const std::string& name : names) {
    const LayerTraits& traits = registry.Traits(name);
    const bool source = traits.data;
    const std::string bottoms = Count(traits.min_bottom, traits.max_bottom);
    const std::string tops = Count(traits.min_top, traits.max_top);
    if (!options.json) {
      std::printf("%-20s %-8s %-6s %-9s %-9s %s\n%-20s %s\n", name.c_str(), bottoms.c_str(),
                  tops.c_str(), traits.in_place ? "yes" : "no",
                  source            ? "source"
                  : traits.backward ? "yes"
                                    : "no",
                  traits.summary.c_str(), "", Types(traits).c_str());
      continue;
    }
    json += Concat(json.empty() ? "[\n " : ",\n ", "{\"name\": ", JsonString(name),
                   ", \"bottoms\": ", JsonString(bottoms), ", \"tops\": ", JsonString(tops),
                   ", \"in_place\": ", traits.in_place ? "true" : "false",
                   ", \"backward\": ", traits.backward && !source ? "true" : "false",
                   ", \"source\": ", source ? "true" : "false",
                   ", \"types\": ", JsonString(Types(traits)),
                   ", \"summary\": ", JsonString(traits.summary), "}");
  }
  if (options.json) std::cout << json << "\n]" << std::endl;
  std::fflush(stdout);
  return 0;
}

}  // namespace caffe

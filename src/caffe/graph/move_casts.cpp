#include <algorithm>
#include <map>
#include <optional>

#include "caffe/graph/passes.hpp"
#include "caffe/graph/typed_net.hpp"
#include "caffe/layer/layer_traits.hpp"

namespace caffe {
namespace {

// The writer of each bottom, and the readers of each top, by positions in the net.
struct Flow {
  std::vector<std::vector<int>> writers;                  // [layer][bottom], -1 without a writer
  std::vector<std::vector<std::pair<int, int>>> readers;  // [layer]: (layer, bottom) of its tops
};

Flow FlowOf(const TypedNet& net) {
  Flow flow;
  flow.writers.resize(net.layers.size());
  flow.readers.resize(net.layers.size());
  std::map<std::string, int> present;
  for (size_t i = 0; i < net.layers.size(); ++i) {
    const LayerParameter& layer = net.layers[i].layer;
    for (int b = 0; b < layer.bottom_size(); ++b) {
      const auto found = present.find(layer.bottom(b));
      const int writer = found == present.end() ? -1 : found->second;
      flow.writers[i].push_back(writer);
      if (writer >= 0) flow.readers[writer].push_back({static_cast<int>(i), b});
    }
    for (const std::string& top : layer.top()) present[top] = static_cast<int>(i);
  }
  return flow;
}

// Whether casts may move from one side of the layer to the other.
CastSide SideOf(const TypedLayer& typed) {
  const LayerTraits& traits = TraitsOf(typed.layer.type());
  const DataType type = typed.types.compute;
  const bool plain = traits.cast_side && !HasOwnTypes(typed.layer) && typed.layer.top_size() == 1 &&
                     typed.layer.bottom_size() >= 1 && !IsInPlace(typed.layer, 0) &&
                     typed.types == TypeTriple::Equal(type) && type.is_float();
  return plain ? traits.cast_side(typed.layer) : CastSide::kNone;
}

// The type in which a layer reads a bottom.
DataType Wanted(const TypedLayer& reader, int bottom) {
  const std::vector<int>& labels = TraitsOf(reader.layer.type()).float_bottoms;
  const bool label = std::find(labels.begin(), labels.end(), bottom) != labels.end();
  return label ? kFloat : reader.types.in;
}

void SetType(DataType type, TypedLayer* typed) {
  std::replace(typed->tops.begin(), typed->tops.end(), typed->types.out, type);
  typed->types = TypeTriple::Equal(type);
}

}  // namespace

TypedNet MoveCasts(const TypedNet& net) {
  TypedNet out = net;
  if (net.keeps_gradients) return out;
  const Flow flow = FlowOf(net);
  const int count = static_cast<int>(net.layers.size());
  std::vector<bool> changed(count);
  for (int i = 0; i < count; ++i) {
    TypedLayer& typed = out.layers[i];
    const int writer = flow.writers[i].empty() ? -1 : flow.writers[i][0];
    if (writer < 0) continue;
    // Layers that follow their bottom follow a new type, too.
    const bool follows = changed[writer] && FollowsBottom(typed.layer) && !HasOwnTypes(typed.layer);
    const bool moves = !follows && SideOf(typed) == CastSide::kAfter;
    const DataType type = out.layers[writer].types.out;
    if (!(follows || moves) || !type.is_float() || type == typed.types.compute) continue;
    SetType(type, &typed);
    changed[i] = true;
    out.casts_moved += moves;
  }
  for (int i = count - 1; i >= 0; --i) {
    if (SideOf(out.layers[i]) != CastSide::kBefore || flow.readers[i].empty()) continue;
    std::optional<DataType> wanted;
    bool equal = true;
    for (const auto& [reader, bottom] : flow.readers[i]) {
      const DataType type = Wanted(out.layers[reader], bottom);
      equal = equal && (!wanted || *wanted == type);
      wanted = type;
    }
    if (!equal || !wanted->is_float() || *wanted == out.layers[i].types.compute) continue;
    SetType(*wanted, &out.layers[i]);
    ++out.casts_moved;
  }
  return out;
}

}  // namespace caffe

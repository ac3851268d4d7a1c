#include <map>
#include <utility>

#include "caffe/core/error.hpp"
#include "caffe/graph/passes.hpp"
#include "caffe/graph/typed_net.hpp"
#include "caffe/layer/layer_traits.hpp"

namespace caffe {
namespace {

// The weight of a top in the net's loss.
float LossWeight(const LayerParameter& layer, int top) {
  if (layer.loss_weight_size() > 0) {
    return top < layer.loss_weight_size() ? layer.loss_weight(top) : 0;
  }
  return TraitsOf(layer.type()).loss && top == 0 ? 1 : 0;
}

}  // namespace

TypedNet InsertSplits(const TypedNet& net) {
  const int count = static_cast<int>(net.layers.size());
  using BlobRef = std::pair<int, int>;  // layer, top
  std::map<std::string, BlobRef> producers;
  std::map<BlobRef, int> readers;
  std::map<BlobRef, BlobRef> source_of;  // (layer, bottom) -> producer
  for (int i = 0; i < count; ++i) {
    const LayerParameter& layer = net.layers[i].layer;
    for (int b = 0; b < layer.bottom_size(); ++b) {
      const auto producer = producers.find(layer.bottom(b));
      CAFFE_CHECK(producer != producers.end(), "Unknown bottom blob '", layer.bottom(b),
                  "' (layer '", layer.name(), "', bottom index ", b,
                  "): no layer before it has this top");
      source_of[{i, b}] = producer->second;
      ++readers[producer->second];
    }
    for (int t = 0; t < layer.top_size(); ++t) producers[layer.top(t)] = {i, t};
  }

  // A loss that a layer reads has one more reader, the sum of the losses: the split's first top.
  std::map<BlobRef, float> losses;
  std::map<BlobRef, int> next_reader;
  for (auto& [blob, count] : readers) {
    const float weight = LossWeight(net.layers[blob.first].layer, blob.second);
    if (weight == 0) continue;
    losses[blob] = weight;
    next_reader[blob] = 1;
    ++count;
  }

  TypedNet out;
  out.keeps_gradients = net.keeps_gradients;
  const auto split_name = [&](const BlobRef& blob) {
    const LayerParameter& layer = net.layers[blob.first].layer;
    return Concat(layer.top(blob.second), "_", layer.name(), "_", blob.second, "_split");
  };
  for (int i = 0; i < count; ++i) {
    TypedLayer typed = net.layers[i];
    LayerParameter& layer = typed.layer;
    for (int b = 0; b < layer.bottom_size(); ++b) {
      const BlobRef blob = source_of[{i, b}];
      if (readers[blob] < 2) continue;
      layer.set_bottom(b, Concat(split_name(blob), "_", next_reader[blob]++));
    }
    for (int t = 0; t < layer.top_size() && t < layer.bottom_size(); ++t) {
      const bool in_place = IsInPlace(net.layers[i].layer, t);
      const bool alone = readers[source_of[BlobRef(i, t)]] == 1;
      CAFFE_CHECK(!in_place || alone, layer.name(), " (", layer.type(),
                  "): works in place on blob ", layer.top(t),
                  ", which other layers read, too, or which is a loss; give it a top of its own");
    }
    for (int t = 0; t < layer.top_size(); ++t) {
      if (!losses.count({i, t})) continue;
      if (layer.loss_weight_size() == 0) {
        for (int other = 0; other < layer.top_size(); ++other) layer.add_loss_weight(0);
      }
      layer.set_loss_weight(t, 0);
    }
    out.layers.push_back(typed);
    for (int t = 0; t < layer.top_size(); ++t) {
      const BlobRef blob{i, t};
      if (readers[blob] < 2) continue;
      TypedLayer& split = out.layers.emplace_back();
      split.added = true;
      split.layer.set_name(split_name(blob));
      split.layer.set_type("Split");
      split.layer.set_phase(layer.phase());
      split.layer.add_bottom(layer.top(t));
      split.types = TypeTriple::Equal(typed.tops[t]);
      split.tops.assign(readers[blob], typed.tops[t]);
      for (int k = 0; k < readers[blob]; ++k) {
        split.layer.add_top(Concat(split_name(blob), "_", k));
        if (losses.count(blob)) split.layer.add_loss_weight(k == 0 ? losses[blob] : 0);
      }
    }
  }
  return out;
}

}  // namespace caffe

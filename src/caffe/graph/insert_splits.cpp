#include <map>
#include <utility>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/graph/passes.hpp"
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

NetParameter InsertSplits(const NetParameter& net) {
  using BlobRef = std::pair<int, int>;  // layer, top
  std::map<std::string, BlobRef> producers;
  std::map<BlobRef, int> readers;
  std::map<BlobRef, BlobRef> source_of;  // (layer, bottom) -> producer
  for (int i = 0; i < net.layer_size(); ++i) {
    const LayerParameter& layer = net.layer(i);
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
    const float weight = LossWeight(net.layer(blob.first), blob.second);
    if (weight == 0) continue;
    losses[blob] = weight;
    next_reader[blob] = 1;
    ++count;
  }

  NetParameter out = net;
  out.clear_layer();
  const auto split_name = [&](const BlobRef& blob) {
    const LayerParameter& layer = net.layer(blob.first);
    return Concat(layer.top(blob.second), "_", layer.name(), "_", blob.second, "_split");
  };
  for (int i = 0; i < net.layer_size(); ++i) {
    LayerParameter layer = net.layer(i);
    for (int b = 0; b < layer.bottom_size(); ++b) {
      const BlobRef blob = source_of[{i, b}];
      if (readers[blob] < 2) continue;
      layer.set_bottom(b, Concat(split_name(blob), "_", next_reader[blob]++));
    }
    for (int t = 0; t < layer.top_size() && t < layer.bottom_size(); ++t) {
      const bool in_place = net.layer(i).top(t) == net.layer(i).bottom(t);
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
    *out.add_layer() = layer;
    for (int t = 0; t < layer.top_size(); ++t) {
      const BlobRef blob{i, t};
      if (readers[blob] < 2) continue;
      LayerParameter* split = out.add_layer();
      split->set_name(split_name(blob));
      split->set_type("Split");
      split->set_phase(layer.phase());
      split->add_bottom(layer.top(t));
      if (layer.has_top_data_type()) {
        const auto type = static_cast<DataTypeProto>(TopType(layer, t).info().proto);
        split->set_bottom_data_type(type);
        split->set_compute_data_type(type);
        split->set_top_data_type(type);
      }
      for (int k = 0; k < readers[blob]; ++k) {
        split->add_top(Concat(split_name(blob), "_", k));
        if (losses.count(blob)) split->add_loss_weight(k == 0 ? losses[blob] : 0);
      }
    }
  }
  return out;
}

}  // namespace caffe

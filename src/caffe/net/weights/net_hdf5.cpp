// BVLC's HDF5 files contain a shared parameter once, at its owner.
#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/io/hdf5_messages.hpp"
#include "caffe/io/unknown_names.hpp"
#include "net_weights.hpp"

namespace caffe {
namespace {

bool HasData(const BlobProto& blob) { return blob.data_size() > 0 || blob.double_data_size() > 0; }

bool HasValues(const BlobProto& blob) { return blob.has_shape() || HasData(blob); }

}  // namespace

void RemoveSharedParameters(const Wiring& wiring, NetParameter* net) {
  std::set<int> written;  // in Wiring::learnable
  ForEachParameter(wiring, [&](int layer, int b, int id) {
    if (!written.insert(id).second) net->mutable_layer(layer)->mutable_blobs(b)->Clear();
  });
}

void CheckHdf5Names(const Wiring& wiring) {
  std::vector<Hdf5Layer> layers;
  for (size_t i = 0; i < wiring.layers.size(); ++i) {
    layers.push_back({wiring.layer_names[i], static_cast<int>(wiring.layers[i]->blobs().size())});
  }
  const std::string fault = Hdf5NameFault(layers);
  CAFFE_CHECK(fault.empty(), NetLabel(wiring.name), ": ", fault);
}

namespace {

// Orders the layers of a file as those of the net, in which layers without parameters may have the
// names of others: CopyWeights matches equal names in their order.
NetParameter InOrderOf(const Wiring& wiring, NetParameter file) {
  std::map<std::string, LayerParameter*> stored;
  for (LayerParameter& layer : *file.mutable_layer()) stored[layer.name()] = &layer;
  std::set<std::string> takers;  // layers with parameters
  for (size_t i = 0; i < wiring.layers.size(); ++i) {
    if (!wiring.layers[i]->blobs().empty()) takers.insert(wiring.layer_names[i]);
  }
  NetParameter ordered;
  for (size_t i = 0; i < wiring.layers.size(); ++i) {
    const auto found = stored.find(wiring.layer_names[i]);
    if (found == stored.end()) continue;
    LayerParameter* layer = ordered.add_layer();
    layer->set_name(found->first);
    if (wiring.layers[i]->blobs().empty() && takers.contains(found->first)) continue;
    layer->Swap(found->second);
    stored.erase(found);
  }
  for (const auto& [name, layer] : stored) ordered.add_layer()->Swap(layer);
  file.mutable_layer()->Swap(ordered.mutable_layer());
  return file;
}

}  // namespace

NetParameter ReadHdf5Weights(const Wiring& wiring, const std::string& path) {
  // Only values that fit a parameter are read; FindSources reports other shapes.
  std::multimap<std::string, const LayerBase*> takers;
  for (size_t i = 0; i < wiring.layers.size(); ++i) {
    takers.emplace(wiring.layer_names[i], wiring.layers[i].get());
  }
  const auto wants = [&](const std::string& layer, int index, const Shape& shape) {
    const auto [first, last] = takers.equal_range(layer);
    return std::any_of(first, last, [&](const auto& taker) {
      const auto& blobs = taker.second->blobs();
      return index < static_cast<int>(blobs.size()) && blobs[index]->shape() == shape;
    });
  };
  std::set<std::string> empty;
  NetParameter net = ReadNetHdf5(path, &empty, wants);
  std::map<std::string, LayerParameter*> layers;
  for (LayerParameter& layer : *net.mutable_layer()) layers[layer.name()] = &layer;
  // A layer whose parameters are all shared ones has a group without datasets.
  for (size_t i = 0; i < wiring.layers.size(); ++i) {
    const std::string& name = wiring.layer_names[i];
    if (wiring.layers[i]->blobs().empty() || !empty.contains(name) || layers.contains(name)) {
      continue;
    }
    layers[name] = net.add_layer();
    layers[name]->set_name(name);
  }
  std::map<int, const BlobProto*> owners;  // with values; by the index in Wiring::learnable
  const auto each = [&](const auto& visit) {
    ForEachParameter(wiring, [&](int i, int b, int id) {
      const auto found = layers.find(wiring.layer_names[i]);
      if (found == layers.end()) return;  // all of its parameters may be shared ones
      LayerParameter& layer = *found->second;
      while (layer.blobs_size() <= b) layer.add_blobs();
      visit(*wiring.layers[i], b, id, &layer);
    });
  };
  each([&](const LayerBase&, int b, int id, LayerParameter* layer) {
    const BlobProto& blob = layer->blobs(b);
    if (HasValues(blob)) owners.emplace(id, &blob);
  });
  each([&](const LayerBase& target, int b, int id, LayerParameter* layer) {
    BlobProto* blob = layer->mutable_blobs(b);
    if (HasValues(*blob)) return;
    const auto owner = owners.find(id);
    CAFFE_CHECK(owner != owners.end(), path, ": no parameter ", b, " of layer '", layer->name(),
                "'; a net that shares parameters stores each of them once, at its owner, and ",
                "here the layer shares it with no layer of the file. Load the weights from a ",
                ".caffemodel, which stores them for each layer, or name the parameter as the ",
                "stored net does (param { name: ... })");
    *blob = *owner->second;
    if (!HasData(*blob)) return;  // the owner's shape is wrong
    blob->mutable_shape()->clear_dim();
    for (const int64_t extent : target.blobs()[b]->shape()) blob->mutable_shape()->add_dim(extent);
  });
  return InOrderOf(wiring, std::move(net));
}

}  // namespace caffe

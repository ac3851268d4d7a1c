// BVLC's HDF5 files hold shared parameters once, at their owner.
#include <map>
#include <set>
#include <utility>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/io/hdf5_messages.hpp"
#include "net_weights.hpp"

namespace caffe {
namespace {

using Place = const SyncedMemory*;

Place PlaceOf(const BlobBase& blob) { return blob.data_memory().get(); }

bool HasValues(const BlobProto& blob) {
  return blob.has_shape() || blob.data_size() > 0 || blob.double_data_size() > 0;
}

}  // namespace

void WriteHdf5Weights(const Wiring& wiring, NetParameter net, const std::string& path) {
  std::map<Place, int> owners;
  std::set<std::string> names;
  for (size_t i = 0; i < wiring.layers.size(); ++i) {
    CAFFE_CHECK(wiring.layers[i]->blobs().empty() || names.insert(wiring.layer_names[i]).second,
                path, ": two layers with parameters are called '", wiring.layer_names[i],
                "', and an HDF5 file knows them by name; give one another name");
    LayerParameter* layer = net.mutable_layer(static_cast<int>(i));
    const auto& blobs = wiring.layers[i]->blobs();
    for (size_t b = 0; b < blobs.size(); ++b) {
      if (++owners[PlaceOf(*blobs[b])] > 1) layer->mutable_blobs(static_cast<int>(b))->Clear();
    }
  }
  WriteNetHdf5(path, net);
}

NetParameter ReadHdf5Weights(const Wiring& wiring, const std::string& path) {
  NetParameter net = ReadNetHdf5(path);
  std::map<std::string, LayerParameter*> layers;
  for (LayerParameter& layer : *net.mutable_layer()) layers[layer.name()] = &layer;
  std::map<Place, const BlobProto*> owners;
  for (size_t i = 0; i < wiring.layers.size(); ++i) {
    const auto found = layers.find(wiring.layer_names[i]);
    if (found == layers.end()) {
      // All of its parameters may be shared ones.
      continue;
    }
    LayerParameter& layer = *found->second;
    const auto& blobs = wiring.layers[i]->blobs();
    for (size_t b = 0; b < blobs.size(); ++b) {
      if (layer.blobs_size() <= static_cast<int>(b)) layer.add_blobs();
      BlobProto* blob = layer.mutable_blobs(static_cast<int>(b));
      const auto owner = owners.find(PlaceOf(*blobs[b]));
      if (!HasValues(*blob)) {
        CAFFE_CHECK(owner != owners.end(), path, ": there is no parameter ", b, " of layer '",
                    layer.name(), "'");
        *blob = *owner->second;
        blob->mutable_shape()->clear_dim();
        for (const int64_t extent : blobs[b]->shape()) blob->mutable_shape()->add_dim(extent);
      } else if (owner == owners.end()) {
        owners[PlaceOf(*blobs[b])] = blob;
      }
    }
  }
  return net;
}

}  // namespace caffe

// BVLC's HDF5 files contain a shared parameter once, at its owner.
#include <map>
#include <set>
#include <utility>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/io/hdf5_messages.hpp"
#include "net_weights.hpp"

namespace caffe {
namespace {

bool HasValues(const BlobProto& blob) {
  return blob.has_shape() || blob.data_size() > 0 || blob.double_data_size() > 0;
}

}  // namespace

void WriteHdf5Weights(const Wiring& wiring, NetParameter net, const std::string& path) {
  std::set<int> written;  // in Wiring::learnable
  size_t parameter = 0;
  std::set<std::string> names;
  for (size_t i = 0; i < wiring.layers.size(); ++i) {
    CAFFE_CHECK(wiring.layers[i]->blobs().empty() || names.insert(wiring.layer_names[i]).second,
                path, ": two layers with parameters are called '", wiring.layer_names[i],
                "', but an HDF5 file finds layers by name; rename one of them");
    LayerParameter* layer = net.mutable_layer(static_cast<int>(i));
    const auto& blobs = wiring.layers[i]->blobs();
    for (size_t b = 0; b < blobs.size(); ++b) {
      if (!written.insert(wiring.learnable_ids[parameter++]).second) {
        layer->mutable_blobs(static_cast<int>(b))->Clear();
      }
    }
  }
  WriteNetHdf5(path, net);
}

NetParameter ReadHdf5Weights(const Wiring& wiring, const std::string& path) {
  NetParameter net = ReadNetHdf5(path);
  std::map<std::string, LayerParameter*> layers;
  for (LayerParameter& layer : *net.mutable_layer()) layers[layer.name()] = &layer;
  std::map<int, const BlobProto*> owners;  // by the index in Wiring::learnable
  size_t parameter = 0;
  for (size_t i = 0; i < wiring.layers.size(); ++i) {
    const auto& blobs = wiring.layers[i]->blobs();
    const size_t first = parameter;
    parameter += blobs.size();
    const auto found = layers.find(wiring.layer_names[i]);
    if (found == layers.end()) continue;  // all of its parameters may be shared ones
    LayerParameter& layer = *found->second;
    for (size_t b = 0; b < blobs.size(); ++b) {
      if (layer.blobs_size() <= static_cast<int>(b)) layer.add_blobs();
      BlobProto* blob = layer.mutable_blobs(static_cast<int>(b));
      const BlobProto*& owner = owners[wiring.learnable_ids[first + b]];
      if (!HasValues(*blob)) {
        CAFFE_CHECK(owner, path, ": no parameter ", b, " of layer '", layer.name(), "'");
        *blob = *owner;
        blob->mutable_shape()->clear_dim();
        for (const int64_t extent : blobs[b]->shape()) blob->mutable_shape()->add_dim(extent);
      } else if (!owner) {
        owner = blob;
      }
    }
  }
  return net;
}

}  // namespace caffe

#include "caffe/calibration/pack_parameters.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "caffe.pb.h"
#include "caffe/core/repeated_names.hpp"
#include "caffe/layer/has_experts.hpp"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/layer/sub_net.hpp"
#include "caffe/quant/packed_parameter.hpp"

namespace caffe {
namespace {

constexpr int64_t kLarge = 4096;

void PackAsHalf(DataType type, BlobProto* blob) {
  const int64_t count = blob->data_size();
  if (type == kHalf && std::any_of(blob->data().begin(), blob->data().end(),
                                   [](float value) { return !(std::abs(value) <= 65504); })) {
    return;
  }
  std::string bytes(count * type.bytes(), '\0');
  ConvertElements(kFloat, blob->data().data(), type, bytes.data(), count);
  StorePacked(type, std::move(bytes), blob);
}

// Infinities and NaN have no codes: the layer reports them when it quantizes its weights.
bool HasCodes(const BlobProto& blob) {
  return std::all_of(blob.data().begin(), blob.data().end(),
                     [](float value) { return std::isfinite(value); });
}

// The data_type of these nets; float if they have several, or none.
DataType TypeOf(const google::protobuf::RepeatedPtrField<NetParameter>& nets) {
  for (const NetParameter& net : nets) {
    if (!net.has_data_type() || net.data_type() != nets[0].data_type()) return kFloat;
  }
  return nets.empty() ? kFloat : DataTypeByProto(nets[0].data_type());
}

DataType TypeOf(const NetParameter& net) {
  return net.has_data_type() ? DataTypeByProto(net.data_type()) : kFloat;
}

// Stores a blob of a nested layer. Those with several axes are weights with the output channels
// first.
void PackMatrix(DataType type, const BlobBase& parameter, const std::string& layer, int index,
                BlobProto* blob, NetParameter* file) {
  if (type == kFloat || type == kDouble) return;
  if (blob->data_size() == 0 || parameter.num_axes() < 2) return;
  if (!type.is_quantized()) return PackAsHalf(type, blob);
  if (!HasCodes(*blob)) return;
  StoreCodes(blob->data().data(), blob->data_size(), parameter.shape(0), type, layer, index, blob,
             file);
}

// The blobs of a mixture of experts are those of its gating net and of each expert.
void PackMixture(const LayerBase& made, const std::string& name, LayerParameter* layer,
                 NetParameter* file) {
  const MOEParameter& moe = made.layer_param().moe_param();
  const DataType experts = TypeOf(moe.expert_net());
  const bool own = moe.gating_net().has_data_type() || moe.gating_net().has_data_type_name();
  const DataType gate = own ? TypeOf(moe.gating_net()) : experts;
  std::set<const BlobBase*> of_experts;
  if (const auto* mixture = dynamic_cast<const HasExperts*>(&made)) {
    for (const ExpertBlob& one : mixture->ExpertBlobs()) of_experts.insert(one.blob.get());
  }
  for (int b = 0; b < layer->blobs_size(); ++b) {
    const BlobBase& parameter = *made.blobs()[b];
    PackMatrix(of_experts.count(&parameter) ? experts : gate, parameter, name, b,
               layer->mutable_blobs(b), file);
  }
}

}  // namespace

void PackParameters(const Net& net, NetParameter* file, const std::map<int, DataType>& stored,
                    bool power_of_two) {
  std::vector<std::string> given;
  for (const LayerParameter& layer : file->layer()) given.push_back(layer.name());
  const std::vector<std::string> names = UniqueNames(given);
  const std::vector<int> layers = MatchInOrder(given, net.layer_names());
  for (int l = 0; l < file->layer_size(); ++l) {
    LayerParameter& layer = *file->mutable_layer(l);
    if (layer.blobs_size() == 0 || layers[l] < 0) continue;
    const std::string& name = names[l];
    const LayerBase& made = *net.layers()[layers[l]];
    const DataType type = made.types().compute;
    if (made.layer_param().has_moe_param()) {
      PackMixture(made, name, &layer, file);
    } else if (dynamic_cast<const CompositeLayer*>(&made)) {
      const auto found = stored.find(layers[l]);
      for (int b = 0; b < layer.blobs_size(); ++b) {
        PackMatrix(found != stored.end() ? found->second : type, *made.blobs()[b], name, b,
                   layer.mutable_blobs(b), file);
      }
    }
    if (type == kFloat || type == kDouble) continue;
    const LayerFacts facts = made.Facts();
    for (int b = 0; b < layer.blobs_size(); ++b) {
      BlobProto* blob = layer.mutable_blobs(b);
      if (blob->data_size() == 0) continue;
      if (type.is_quantized()) {
        const bool whole = facts.weighted && b == 0 && facts.weighted->outer == 1;
        if (!whole || !HasCodes(*blob)) continue;
        StoreCodes(blob->data().data(), blob->data_size(), facts.weighted->channels, type, name, b,
                   blob, file, power_of_two);
      } else if ((facts.weighted && b == 0) || blob->data_size() >= kLarge) {
        PackAsHalf(type, blob);
      }
    }
  }
}

}  // namespace caffe

#include "caffe/calibration/pack_parameters.hpp"

#include <algorithm>
#include <cmath>

#include "caffe.pb.h"
#include "caffe/layer/layer_facts.hpp"
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
  blob->clear_data();
  blob->set_packed_data(bytes);
  blob->set_data_type(static_cast<DataTypeProto>(type.info().proto));
  if (type.is_custom()) blob->set_data_type_name(type.name());
}

}  // namespace

void PackParameters(const Net& net, NetParameter* file) {
  for (LayerParameter& layer : *file->mutable_layer()) {
    if (layer.blobs_size() == 0 || !net.has_layer(layer.name())) continue;
    const LayerBase& made = *net.LayerByName(layer.name());
    const DataType type = made.types().compute;
    if (type == kFloat || type == kDouble) continue;
    const LayerFacts facts = made.Facts();
    for (int b = 0; b < layer.blobs_size(); ++b) {
      BlobProto* blob = layer.mutable_blobs(b);
      if (blob->data_size() == 0) continue;
      if (type.is_quantized()) {
        const bool whole = facts.weighted && b == 0 && facts.weighted->outer == 1;
        if (!whole) continue;
        const SymmetricCodes codes =
            EncodeSymmetric(blob->data().data(), blob->data_size(), facts.weighted->channels, type);
        StoreCodes(codes, type, layer.name(), b, blob, file);
      } else if ((facts.weighted && b == 0) || blob->data_size() >= kLarge) {
        PackAsHalf(type, blob);
      }
    }
  }
}

}  // namespace caffe

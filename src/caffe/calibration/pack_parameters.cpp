#include "caffe/calibration/pack_parameters.hpp"

#include <algorithm>
#include <cmath>

#include "caffe.pb.h"
#include "caffe/layer/layer_facts.hpp"
#include "caffe/quant/stored_ranges.hpp"

namespace caffe {
namespace {

constexpr int64_t kLarge = 4096;

template <class Code>
void PackCodes(const BlobProto& source, int64_t channels, int64_t most, std::string* bytes,
               std::vector<double>* scales) {
  const int64_t depth = source.data_size() / channels;
  std::vector<Code> codes(source.data_size());
  for (int64_t c = 0; c < channels; ++c) {
    const float* row = source.data().data() + c * depth;
    double largest = 0;
    for (int64_t i = 0; i < depth; ++i) largest = std::max<double>(largest, std::abs(row[i]));
    // The scale has the precision of the file.
    const double wanted = std::max(largest / static_cast<double>(most), 0x1p-126);
    const double scale = largest == 0 ? 1 : static_cast<double>(static_cast<float>(wanted));
    for (int64_t i = 0; i < depth; ++i) {
      const int64_t code = std::clamp<int64_t>(std::llround(row[i] / scale), -most, most);
      codes[c * depth + i] = static_cast<Code>(code + most + 1);
    }
    scales->push_back(scale);
  }
  bytes->assign(reinterpret_cast<const char*>(codes.data()), codes.size() * sizeof(Code));
}

void PackAsCodes(const std::string& layer, DataType type, int64_t channels, BlobProto* blob,
                 NetParameter* file) {
  std::string bytes;
  std::vector<double> scales;
  if (type == kQuant8) {
    PackCodes<uint8_t>(*blob, channels, 127, &bytes, &scales);
  } else {
    PackCodes<uint16_t>(*blob, channels, 32767, &bytes, &scales);
  }
  blob->clear_data();
  blob->set_packed_data(bytes);
  blob->set_data_type(static_cast<DataTypeProto>(type.info().proto));
  const StoredRange range = ParameterRange(scales, type.info().code_max);
  QuantizerParameter* quantizer = file->add_quantizer();
  quantizer->set_name(layer + "_blobs_0_quant");
  quantizer->set_observed_min(range.low);
  quantizer->set_observed_max(range.high);
  for (const double scale : scales) quantizer->add_channel_scale(static_cast<float>(scale));
}

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
        if (whole) PackAsCodes(layer.name(), type, facts.weighted->channels, blob, file);
      } else if ((facts.weighted && b == 0) || blob->data_size() >= kLarge) {
        PackAsHalf(type, blob);
      }
    }
  }
}

}  // namespace caffe

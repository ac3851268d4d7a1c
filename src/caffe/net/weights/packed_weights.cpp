#include "packed_weights.hpp"

#include <algorithm>
#include <cstring>

#include "caffe.pb.h"
#include "caffe/core/error.hpp"
#include "caffe/core/log.hpp"
#include "caffe/io/unknown_names.hpp"
#include "caffe/layer/layer_facts.hpp"

namespace caffe {
namespace {

// Whether operators of the layer take the elements as they are.
bool TakesStored(const LayerBase& layer, int parameter, const PackedParameter& packed) {
  if (layer.phase() != TEST || parameter != 0 || layer.types().compute != packed.type() ||
      packed.type().is_packed()) {
    return false;
  }
  const LayerFacts facts = layer.Facts();
  if (!facts.weighted) return false;
  if (!packed.type().has_range()) return true;
  // An operator reads codes with one scale.
  if (packed.type().is_scaled()) return packed.channels().size() == 1;
  const size_t ranges = packed.channels().size();
  const bool by_channel =
      facts.weighted->outer == 1 && ranges == static_cast<size_t>(facts.weighted->channels);
  return packed.symmetric() && (ranges == 1 || by_channel);
}

// The bits of a value: of its significand, or of its code. A wide type of a user may have as many
// bits as float, but it has another precision.
int Bits(DataType type) {
  if (type == kDouble) return 53;
  if (type == kFloat) return 24;
  if (type == kHalf) return 11;
  if (type == kBfloat16) return 8;
  return type.is_custom() ? type.info().bits : static_cast<int>(8 * type.bytes());
}

// Empty if nothing is lost.
std::string Loss(DataType stored, DataType compute) {
  if (compute.is_quantized()) {
    return Concat(stored.is_quantized() ? "quantized again" : "quantized", " to codes of ",
                  Bits(compute), " bits");
  }
  const std::string codes =
      stored.is_quantized() ? Concat("the values of codes of ", Bits(stored), " bits") : "";
  const bool rounds = compute.is_custom() && compute != stored;
  if (!rounds && Bits(compute) >= Bits(stored)) return codes;
  return Concat(codes, codes.empty() ? "" : ", ", "rounded to ", Bits(compute), " bits");
}

}  // namespace

PackedReader::PackedReader(const NetParameter& trained, const WeightsFile* file, bool map)
    : file_(file), map_(map) {
  if (std::any_of(trained.layer().begin(), trained.layer().end(), [&](const LayerParameter& layer) {
        return std::any_of(layer.blobs().begin(), layer.blobs().end(), &StoresCodes);
      })) {
    ranges_ = ReadRanges(trained, NetParameter());
  }
}

int64_t PackedReader::Elements(const BlobProto& blob, int index) const {
  int64_t bytes = file_ ? file_->PackedBytes(index) : -1;
  if (bytes < 0 && blob.has_packed_data() && blob.double_data_size() == 0) {
    bytes = static_cast<int64_t>(blob.packed_data().size());
  }
  if (bytes < 0) return -1;
  const DataType type = PackedType(blob);
  if (!type.is_packed()) return bytes / static_cast<int64_t>(type.bytes());
  // The last byte may have one element.
  int64_t count = 1;
  for (const int64_t extent : blob.shape().dim()) count *= extent;
  return type.FileBytes(count) == bytes ? count : 2 * bytes;
}

std::string PackedReader::Where(const std::string& layer, int parameter) const {
  return Concat("layer '", layer, "', parameter ", parameter);
}

void PackedReader::Check(const std::string& layer, int parameter, const BlobProto& blob,
                         int index) const {
  const DataType type = PackedType(blob);
  if (!type.has_range()) return;
  const ChannelRanges& range = RangeOfCodes(ranges_, layer, parameter, type);
  const int64_t count = Elements(blob, index);
  const int64_t channels =
      static_cast<int64_t>(std::max({range.scale.size(), range.low.size(), size_t{1}}));
  CAFFE_CHECK(count % channels == 0, Where(layer, parameter), " has ", count,
              " codes, but ranges for ", channels, " channels");
}

void PackedReader::Read(const std::string& layer, int parameter, const BlobProto& blob, int index,
                        const LayerBase& target, int target_parameter) const {
  const DataType type = PackedType(blob);
  const int64_t count = Elements(blob, index);
  BlobBase* to = target.blobs()[target_parameter].get();
  std::shared_ptr<const char> bytes = map_ && file_ ? file_->Map(index) : nullptr;
  const bool mapped = bytes != nullptr;
  if (!mapped) {
    const int64_t size = type.FileBytes(count);
    const std::shared_ptr<char> own = PackedParameter::Allocate(size, to->name());
    if (file_ && file_->PackedBytes(index) >= 0) {
      file_->ReadPacked(index, own.get());
    } else {
      std::memcpy(own.get(), blob.packed_data().data(), size);
    }
    bytes = own;
  }
  ChannelRanges range;
  if (type.has_range()) range = RangeOfCodes(ranges_, layer, parameter, type);
  const auto packed = std::make_shared<PackedParameter>(type, count, bytes, std::move(range),
                                                        Where(layer, parameter));
  packed->set_mapped(mapped);
  if (!to->data_memory()->has_view() && TakesStored(target, target_parameter, *packed)) {
    PackedParameter::Set(packed, to);
    return;
  }
  packed->Decode(to->type(), to->overwrite_host_data());
}

void WeightLosses::Add(const LayerBase& layer, DataType stored) {
  const DataType compute = layer.types().compute;
  if (!layer.Facts().weighted || PackedParameter::Of(*layer.blobs()[0])) return;
  const std::string loss = Loss(stored, compute);
  if (loss.empty()) return;
  ++layers_[Concat(stored.name(), " in the file, and the net computes in ", compute.name(), ": ",
                   loss)];
}

void WeightLosses::Log(const std::string& net) const {
  for (const auto& [types, layers] : layers_) {
    log::Info(Concat(NetLabel(net), ": the weights of ", layers,
                     layers == 1 ? " layer are " : " layers are ", types));
  }
}

bool WritePacked(const LayerBase& layer, const std::string& unique_name, int parameter,
                 BlobProto* blob, NetParameter* net) {
  const BlobBase& source = *layer.blobs()[parameter];
  const auto packed = PackedParameter::Of(source);
  if (!packed) return false;
  blob->Clear();
  for (const int64_t extent : source.shape()) blob->mutable_shape()->add_dim(extent);
  const auto bytes = static_cast<size_t>(packed->bytes());
  StorePacked(packed->type(), {packed->elements().get(), bytes}, blob);
  if (!packed->type().has_range()) return true;
  const std::string name = ParameterQuantizer(unique_name, parameter);
  auto* entries = net->mutable_quantizer();
  const auto found = std::find_if(entries->begin(), entries->end(),
                                  [&](const auto& entry) { return entry.name() == name; });
  QuantizerParameter* quantizer = found == entries->end() ? entries->Add() : &*found;
  quantizer->Clear();
  quantizer->set_name(name);
  WriteRange(packed->range(), quantizer);
  return true;
}

}  // namespace caffe
